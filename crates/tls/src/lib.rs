//! Certificates and TLS configuration: own CA, leaves, reload on change.
