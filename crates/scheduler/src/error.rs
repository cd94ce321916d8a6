//! What can be wrong with a configuration, and why no endpoint was found.

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A field that does not fit, by path.
    #[error("the endpoint picker configuration: {0}")]
    Shape(String),
    /// It is not YAML.
    #[error("the endpoint picker configuration cannot be read: {0}")]
    Syntax(String),
    /// Another document.
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
    #[error(
        "featureGates: unknown feature gate \"{0}\"; known are flowControl and haPopulateNonLeaderDatastore"
    )]
    FeatureGate(String),
    /// A field that asks for something that is not supported.
    #[error("{path}: \"{value}\" is not supported: it would need {needs}; remove the field")]
    Unsupported {
        /// The field's path.
        path: &'static str,
        /// Its value.
        value: String,
        /// What it would need.
        needs: &'static str,
    },
    /// Plugins of types that we do not have.
    #[error("{}; known types are {known}", listed(missing))]
    Types {
        /// Each of them.
        missing: Vec<MissingType>,
        /// All types that we have, comma separated.
        known: String,
    },
    /// An alpha plugin without the flag.
    #[error(
        "plugin type \"{plugin_type}\" of plugin \"{name}\" is experimental; allow it with --allow-experimental-plugins"
    )]
    Experimental {
        /// The plugin's name.
        name: String,
        /// Its type.
        plugin_type: String,
    },
    /// Two plugins of one name.
    #[error("plugin name \"{0}\" is used twice")]
    DuplicatePlugin(String),
    /// Parameters that the plugin does not understand.
    #[error("parameters of plugin \"{name}\": {message}")]
    Parameters {
        /// The plugin's name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A reference to a plugin that is not declared, or not of the needed sort.
    #[error("{from} refers to plugin \"{reference}\", which is not {expected}{hint}")]
    Reference {
        /// What refers.
        from: String,
        /// To which name.
        reference: String,
        /// What it should be.
        expected: &'static str,
        /// The declared name that was probably meant, as a sentence; often empty.
        hint: String,
    },
    /// A plugin needs what no plugin provides.
    #[error("plugin \"{name}\" needs {needs}, which no declared plugin provides; declare \"{declare}\"")]
    MissingProducer {
        /// The plugin's name.
        name: String,
        /// What it consumes.
        needs: &'static str,
        /// The plugin type that provides it.
        declare: &'static str,
    },
    /// More than one plugin decides which profiles run.
    #[error("there may be one profile handler, found \"{0}\" and \"{1}\"")]
    ProfileHandlers(String, String),
    /// Several profiles, and nothing to choose between them.
    #[error("single-profile-handler needs exactly one scheduling profile, found {0}")]
    SingleProfile(usize),
    /// Two profiles of one name.
    #[error("scheduling profile \"{0}\" is declared twice")]
    DuplicateProfile(String),
    /// A profile that a handler runs is missing.
    #[error("plugin \"{handler}\" runs scheduling profile \"{profile}\", which is not declared")]
    MissingProfile {
        /// The handler's name.
        handler: String,
        /// The profile's name.
        profile: String,
    },
    /// Two pickers in a profile.
    #[error("scheduling profile \"{0}\" has more than one picker")]
    Pickers(String),
}

impl ConfigError {
    /// A reference that leads nowhere, with the known name that was probably meant.
    pub(crate) fn reference<'a>(
        from: impl Into<String>,
        reference: &str,
        expected: &'static str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let hint = crate::config::nearest::hint(known, reference);
        Self::Reference { from: from.into(), reference: reference.to_owned(), expected, hint }
    }
}

/// A plugin of a type that we do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingType {
    /// The plugin's name.
    pub name: String,
    /// Its type.
    pub plugin_type: String,
    /// What it would need, where it is a type of the reference that is refused here.
    pub needs: Option<&'static str>,
    /// The type that was probably meant.
    pub meant: Option<&'static str>,
}

fn listed(missing: &[MissingType]) -> String {
    let each = missing.iter().map(|MissingType { name, plugin_type, needs, meant }| {
        let known = format!("plugin type \"{plugin_type}\" of plugin \"{name}\"");
        match (needs, meant) {
            (Some(needs), _) => format!("{known} is not supported: it would need {needs}"),
            (None, Some(meant)) => format!("unknown {known}; did you mean \"{meant}\"?"),
            (None, None) => format!("unknown {known}"),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Why no endpoint was picked. The texts are those of the reference: they reach the client in a 429.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There was nothing to choose from.
    #[error("failed to find endpoint candidates for serving the request")]
    NoCandidates,
    /// The filters of the only profile left nothing.
    #[error("failed to find target endpoint: failed to run scheduler profile '{0}'")]
    Profile(String),
    /// No profile ran.
    #[error("failed to find target endpoint: failed to run any scheduler profile for request {0}")]
    NoProfile(String),
    /// The pool is too full for a request of this priority.
    #[error("system saturated, sheddable request dropped")]
    NotAdmitted,
    /// No endpoint is predicted to answer a request that may be dropped in the time that it asks for.
    #[error("no valid endpoint available to serve the request")]
    TooSlow,
    /// Nothing can decode.
    #[error("failed to find target endpoint: failed to find available decode workers")]
    NoDecodeWorkers,
}
