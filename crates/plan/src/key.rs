//! What a service depends on, by kind and name.

use std::fmt;

use crate::kinds;

macro_rules! kind {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// Kinds of what services depend on: kinds of objects, and indexes that several objects are found under.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            /// A service.
            InferenceService,
            /// A config, preset or not.
            Config,
            /// All services that share their traffic under that name.
            RoutingGroup,
            /// All services of a model of that name.
            ModelName,
            /// Any Service behind the Gateway of that name: found by label or by name.
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
pub type ObjectKey = longboat_store::ObjectKey<Kind>;
