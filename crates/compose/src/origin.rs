//! The origins of values.

use std::fmt;

use longboat_key::Key;

/// The origin of a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A config.
    Config(Key),
    /// A ServingRuntime, or a ClusterServingRuntime, which has no namespace.
    Runtime(Key),
    /// The service itself.
    Service,
    /// Composition: names, selectors, ports and references that are derived from other values.
    #[default]
    Derived,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(Key { namespace, name }) => {
                write!(f, "LLMInferenceServiceConfig {namespace}/{name}")
            }
            Self::Runtime(Key { namespace, name }) if namespace.is_empty() => {
                write!(f, "ClusterServingRuntime {name}")
            }
            Self::Runtime(Key { namespace, name }) => write!(f, "ServingRuntime {namespace}/{name}"),
            Self::Service => f.write_str("the service"),
            Self::Derived => f.write_str("composing"),
        }
    }
}
