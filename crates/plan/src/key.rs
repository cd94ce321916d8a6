//! What a service depends on, by kind and name.

use std::fmt;

use crate::kinds;

macro_rules! kind {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// The kinds of objects that services depend on, and of indexes that list several objects under one name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            /// A service.
            InferenceService,
            /// A config, preset or not.
            Config,
            /// A namespace.
            Namespace,
            /// All services that share their traffic in the group of that name.
            RoutingGroup,
            /// All services that serve a model of that name.
            ModelName,
            /// Every Service that may be behind the Gateway of that name, found by label or by name.
            GatewayService,
            $($(#[$doc])* $kind,)*
        }
    };
}

kinds!(all kind);

/// The name of the kind.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One object of one kind.
pub type ObjectKey = longboat_key::ObjectKey<Kind>;
