//! Errors of a configuration, and the reasons why no endpoint was picked.

use crate::config::nearest::hint_or_all;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A field has a wrong shape. The message has its path.
    #[error("the endpoint picker configuration: {0}")]
    Shape(String),
    /// The text is not YAML.
    #[error("cannot read the endpoint picker configuration: {0}")]
    Syntax(String),
    /// The document is not an `EndpointPickerConfig`.
    #[error(
        "expected kind EndpointPickerConfig with apiVersion llm-d.ai/v1alpha1 (or \
         inference.networking.x-k8s.io/v1alpha1), found kind \"{kind}\" with apiVersion \"{api_version}\""
    )]
    Kind {
        /// The `apiVersion` found.
        api_version: String,
        /// The `kind` found.
        kind: String,
    },
    /// An unknown feature gate.
    #[error("featureGates: unknown feature gate {0}")]
    FeatureGate(String),
    /// A field that asks for something that is not supported.
    #[error("{path}: \"{value}\" is not supported, because it needs {needs}; remove the field")]
    Unsupported {
        /// The field's path.
        path: &'static str,
        /// Its value.
        value: String,
        /// What it would need.
        needs: &'static str,
    },
    /// Plugins of unknown types.
    #[error("{}{}", listed(missing), known_types(missing, known))]
    Types {
        /// The plugins.
        missing: Vec<MissingType>,
        /// All known types, separated by commas.
        known: String,
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
        /// What is wrong.
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
    /// The known type that was probably meant.
    pub meant: Option<&'static str>,
}

fn listed(missing: &[MissingType]) -> String {
    let each = missing.iter().map(|MissingType { name, plugin_type, needs, meant }| {
        let known = format!("plugin type \"{plugin_type}\" of plugin \"{name}\"");
        match (needs, meant) {
            (Some(needs), _) => format!("{known} is not supported, because it needs {needs}"),
            (None, Some(meant)) => format!("unknown {known}; did you mean \"{meant}\"?"),
            (None, None) => format!("unknown {known}"),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// The known types, where a type is none of them and like none of them.
fn known_types(missing: &[MissingType], known: &str) -> String {
    let strange = missing.iter().any(|missing| missing.needs.is_none() && missing.meant.is_none());
    if strange { format!("; known types are {known}") } else { String::new() }
}

/// Why no endpoint was picked. The texts are those of the reference, because they reach the client in a 429.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There were no candidates.
    #[error("failed to find endpoint candidates for serving the request")]
    NoCandidates,
    /// The filters of the only profile dropped all candidates.
    #[error("failed to find target endpoint: failed to run scheduler profile '{0}'")]
    Profile(String),
    /// No profile ran.
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
