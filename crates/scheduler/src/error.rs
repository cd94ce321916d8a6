//! Errors of a configuration, and the reasons why no endpoint was picked.

use crate::{config::nearest::hint_or_all, reading::ParameterError};

/// The page with all plugin types.
const PLUGINS_PAGE: &str = "docs/reference/plugins.md";

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A field has a wrong shape.
    #[error("the endpoint picker configuration: {message}")]
    Shape {
        /// The field's path, also if it is a field that does not exist.
        path: String,
        /// What is wrong, with the path.
        message: String,
    },
    /// A list is too long.
    #[error("{path}: expected at most {most} entries, found {found}")]
    TooMany {
        /// The list's path.
        path: String,
        /// The limit.
        most: usize,
        /// Its length.
        found: usize,
    },
    /// The text is not YAML.
    #[error("cannot read the endpoint picker configuration: {0}")]
    Syntax(String),
    /// The document is not an `EndpointPickerConfig`.
    #[error(
        "expected kind EndpointPickerConfig with apiVersion {expected}, found kind \"{kind}\" with apiVersion \
         \"{api_version}\""
    )]
    Kind {
        /// The `apiVersion` found.
        api_version: String,
        /// The `kind` found.
        kind: String,
        /// The `apiVersion` to write.
        expected: &'static str,
    },
    /// A field that another version of the document has.
    #[error("{path} is not a field of {version}: write {now}")]
    Misplaced {
        /// The field's path.
        path: String,
        /// The version of the document.
        version: String,
        /// The field of this version.
        now: String,
    },
    /// Feature gates that are unknown, or have neither of the two values.
    #[error("{from}: {problem}")]
    FeatureGate {
        /// The field or flag that lists them.
        from: &'static str,
        /// The position of the first one in the list.
        index: usize,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// A field that asks for something that is not supported.
    #[error("{path}: \"{value}\" is not supported, because it needs {needs}; remove the field")]
    Unsupported {
        /// The field's path.
        path: String,
        /// Its value.
        value: String,
        /// What it would need.
        needs: &'static str,
    },
    /// Plugins of unknown types.
    #[error("{}", listed(missing, *more))]
    Types {
        /// The first of these plugins.
        missing: Vec<MissingType>,
        /// The number of the others.
        more: usize,
    },
    /// An alpha plugin is declared without the flag that allows it.
    #[error(
        "plugin type \"{plugin_type}\" of plugin \"{name}\" is experimental; allow it with --allow-experimental-plugins"
    )]
    Experimental {
        /// The plugin's name.
        name: String,
        /// Its type.
        plugin_type: String,
    },
    /// Two plugins have the same name.
    #[error("plugins: two plugins have the name \"{0}\"; give one of them another name with the field name")]
    DuplicatePlugin(String),
    /// The plugin does not accept its parameters.
    #[error("parameters of plugin \"{name}\": {message}")]
    Parameters {
        /// The plugin's name.
        name: String,
        /// The path below `parameters`; empty if it is not known.
        path: String,
        /// What is wrong, with the path.
        message: String,
    },
    /// A reference to a plugin that is not declared, or not of the needed kind.
    #[error("{from} refers to plugin \"{reference}\", which is not {expected}{hint}")]
    Reference {
        /// The place of the reference.
        from: String,
        /// The name that it refers to.
        reference: String,
        /// The expected kind of plugin.
        expected: &'static str,
        /// A sentence with the declared name that was probably meant, or with all declared names.
        hint: String,
    },
    /// A scorer with a weight below zero.
    #[error(
        "schedulingProfiles: profile \"{profile}\": weight of plugin \"{plugin}\": expected 0 or more, found {weight}; a \
         negative weight would prefer the endpoints to which the scorer gives the lowest score"
    )]
    Weight {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: String,
        /// Its weight.
        weight: f64,
    },
    /// A plugin needs data that no declared plugin provides.
    #[error("plugin \"{name}\" needs {needs}, which no declared plugin provides; declare \"{declare}\"")]
    MissingProducer {
        /// The plugin's name.
        name: String,
        /// The needed data.
        needs: &'static str,
        /// The plugin type that provides it.
        declare: &'static str,
    },
    /// More than one plugin decides which profiles run.
    #[error("expected one profile handler, found \"{0}\" and \"{1}\"")]
    ProfileHandlers(String, String),
    /// There is not exactly one profile for a handler that runs a single profile.
    #[error("single-profile-handler needs exactly one scheduling profile, found {0}")]
    SingleProfile(usize),
    /// Two profiles have the same name.
    #[error("scheduling profile \"{0}\" is declared twice")]
    DuplicateProfile(String),
    /// A profile that a handler runs is missing.
    #[error(
        "plugin \"{handler}\" runs scheduling profile \"{profile}\", which is not declared in schedulingProfiles{hint}"
    )]
    MissingProfile {
        /// The handler's name.
        handler: String,
        /// The profile's name.
        profile: String,
        /// A sentence with the declared names.
        hint: String,
    },
    /// A profile has two pickers.
    #[error("scheduling profile \"{0}\" has more than one picker")]
    Pickers(String),
}

impl ConfigError {
    /// Creates an error for a value that cannot be read.
    pub(crate) fn unreadable_parameter(error: &ParameterError) -> Self {
        Self::Shape { path: error.place(), message: error.to_string() }
    }

    /// Creates an error for a reference to an unknown plugin, with a hint at the name that was probably meant, or with all names.
    pub(crate) fn reference<'a>(
        from: impl Into<String>,
        reference: &str,
        expected: &'static str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = if known.contains(&reference) {
            "; the plugin of this name has another type".to_owned()
        } else {
            hint_or_all(known, reference)
        };
        Self::Reference { from: from.into(), reference: reference.to_owned(), expected, hint }
    }
}

/// A plugin of an unknown type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingType {
    /// The plugin's name.
    pub name: String,
    /// Its type.
    pub plugin_type: String,
    /// What the type would need, if it is a type of the reference that this picker refuses.
    pub needs: Option<&'static str>,
    /// What was probably meant.
    pub meant: Suggestion,
}

impl MissingType {
    /// Whether a reference with this name means the plugin.
    pub(crate) fn may_be(&self, name: &str) -> bool {
        self.name == name
            || matches!(self.meant, Suggestion::Renamed(meant) | Suggestion::Misspelt(meant) if meant == name)
    }
}

/// What the name of an unknown type probably means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// It is the name that this type had in an earlier release.
    Renamed(&'static str),
    /// It is a typing error for this type.
    Misspelt(&'static str),
    /// It is unknown. These types have the most similar names.
    Like(Vec<&'static str>),
}

fn listed(missing: &[MissingType], more: usize) -> String {
    let mut parts: Vec<String> = missing.iter().map(of_type).collect();
    if more > 0 {
        parts.push(format!("{more} more plugins have unknown types"));
    }
    let strange =
        |missing: &MissingType| missing.needs.is_none() && matches!(missing.meant, Suggestion::Like(_));
    if missing.iter().any(strange) {
        parts.push(format!("{PLUGINS_PAGE} lists all types"));
    }
    parts.join("; ")
}

fn of_type(MissingType { name, plugin_type, needs, meant }: &MissingType) -> String {
    let plugin = format!("plugin type \"{plugin_type}\" of plugin \"{name}\"");
    match (needs, meant) {
        (Some(needs), _) => format!("{plugin} is not supported, because it needs {needs}"),
        (None, Suggestion::Renamed(name)) => format!("{plugin} has a new name: write \"{name}\""),
        (None, Suggestion::Misspelt(name)) => format!("unknown {plugin}; did you mean \"{name}\"?"),
        (None, Suggestion::Like(names)) => format!("unknown {plugin}; the nearest are {}", names.join(", ")),
    }
}

/// Why no endpoint was picked. The texts are those of the reference, because they reach the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There were no candidates.
    #[error("failed to find endpoint candidates for serving the request")]
    NoCandidates,
    /// The filters dropped all candidates, so the pool is busy.
    #[error("failed to find target endpoint: {0}")]
    Filtered(String),
    /// The request names a profile that does not exist.
    #[error("failed to find target endpoint: failed to run any scheduler profile for request {0}")]
    NoProfile(String),
    /// The pool is too full for a request of this priority.
    #[error("system saturated, sheddable request dropped")]
    NotAdmitted,
    /// The request may be dropped, and no endpoint is predicted to answer it in the requested time.
    #[error("no valid endpoint available to serve the request")]
    TooSlow,
    /// No endpoint can decode.
    #[error("failed to find target endpoint: failed to find available decode workers")]
    NoDecodeWorkers,
}

// === impl ScheduleError ===

impl ScheduleError {
    /// The error for a profile whose filters dropped all candidates.
    pub fn filtered_by(profile: &str) -> Self {
        Self::Filtered(format!("failed to run scheduler profile '{profile}'"))
    }
}
