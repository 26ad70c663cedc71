"""The conservation laws of a broker's numbers, under their public name.

See `zaichik.apps.audit`.
"""

from zaichik.apps.audit import Row, Sum, audit

__all__ = ["Row", "Sum", "audit"]
