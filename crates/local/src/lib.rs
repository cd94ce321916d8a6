//! Wires the API server, controller, node and gateway into `longboat up`.
