//! Go text/template with Go's typed semantics, as the presets use it.
