//! Layers (presets, baseRefs, the service) to one effective spec, with where each leaf came from.
