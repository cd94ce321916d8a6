//! What the node of local mode reports about itself, besides what every node reports.

/// The condition that says whether containers see volumes at the paths of their manifests.
pub const MOUNT_NAMESPACES: &str = "MountNamespaces";

/// They do not, but programs of Longboat need only the paths that manifests name, and those are rewritten.
pub const PATHS_REWRITTEN: &str = "PathsRewritten";

/// They do not, and the engine is a program of the user, which may read or compare other paths.
pub const ENGINE_SEES_OTHER_PATHS: &str = "EngineSeesOtherPaths";
