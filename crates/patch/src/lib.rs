//! Strategic merge patch, managed-fields algebra, and the one table of list keys that both share.
