"""Shared names in a broker: what `work_queue` decides, for topics, frames and connections (SHR).

`shared_position` is a name: it tells its work queue what happens in its topic. `shared_reader` is a
worker's subscription: it gets its share in frames. `shared_names` is what all names of a broker
have in common, `dead_requests` what operators and users ask about the dead.
"""
