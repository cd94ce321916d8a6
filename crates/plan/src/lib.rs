//! Effective spec and snapshot to the children that must exist and the status to report.
