"""The events of the examples, under their public name; see `zaichik.apps.demo`."""
