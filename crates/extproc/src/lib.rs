//! The Envoy ext_proc wire, server and client; the only user of its protobuf types.
