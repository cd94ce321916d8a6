//! HTTPRoutes and InferencePools served on one port, asking the picker as Envoy would.
