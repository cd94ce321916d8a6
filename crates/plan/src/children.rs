//! The objects that a service consists of, and whether they have been written.

use std::{fmt, marker::PhantomData};

use crate::{
    child_kinds,
    kinds::types::{self, Deployment, LeaderWorkerSet},
};

/// Children as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {}

/// Children as the API server holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {}

macro_rules! children {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $go_type:literal;)*) => {
        /// The children of one service, a field per kind, what others need before them.
        ///
        /// Whoever applies them does so by the [table of kinds](crate::child_kinds): none is planned and not applied.
        /// [`crate::status()`] takes only `Children<Applied>`, so that conditions come from what the server returned.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Children<S> {
            $($(#[$doc])* pub $field: Vec<types::$kind>,)*
            /// Whether these were written.
            pub state: PhantomData<S>,
        }

        /// The kinds that children can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ChildKind {
            $(#[doc = concat!("`", $go_type, "`.")] $kind,)*
        }

        impl<S> Default for Children<S> {
            fn default() -> Self {
                Self { $($field: Vec::new(),)* state: PhantomData }
            }
        }

        impl ChildKind {
            /// The type as events of the reference name it, such as `v1.Deployment`.
            pub const fn go_type(self) -> &'static str {
                match self {
                    $(Self::$kind => $go_type,)*
                }
            }
        }
    };
}

child_kinds!(children);

/// One child by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// What it is.
    pub kind: ChildKind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

// === impl Children ===

impl<S> Children<S> {
    /// The Deployment of that name, if the service has one.
    pub fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments.iter().find(|object| object.metadata.name.as_deref() == Some(name))
    }

    /// The LeaderWorkerSet of that name, if the service has one.
    pub fn leader_worker_set(&self, name: &str) -> Option<&LeaderWorkerSet> {
        self.leader_worker_sets.iter().find(|object| object.metadata.name.as_deref() == Some(name))
    }
}

// === impl ObjectRef ===

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.go_type(), self.namespace, self.name)
    }
}
