//! The objects that a service consists of, and whether they have been written.

use std::{fmt, marker::PhantomData};

use k8s_openapi::{Metadata, api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_key::Key;

use crate::{
    child::Child,
    key::{Kind, ObjectKey},
    kinds::types::{self, Deployment, LeaderWorkerSet},
    wave::Wave,
};

/// Children as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {}

/// Children as the API server holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {}

macro_rules! children {
    ($($(#[$doc:meta])* $field:ident: $kind:ident ($go_type:literal, $wave:ident) $observed:tt;)*) => {
        /// The children of one service: a field per kind. Kinds that other kinds need come first.
        ///
        /// The code that applies children is generated from the same [table of kinds](crate::kinds!), so it handles every
        /// planned kind.
        /// [`crate::status()`] takes only `Children<Applied>`, so that conditions come from what the server returned.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Children<S> {
            $($(#[$doc])* pub $field: Vec<types::$kind>,)*
            /// Whether these children are planned or written.
            pub state: PhantomData<S>,
        }

        /// The kinds that children can have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ChildKind {
            $(#[doc = concat!("`", $go_type, "`.")] $kind,)*
        }

        impl<S> Children<S> {
            /// Takes out the children that are written in this wave.
            #[must_use]
            pub fn take(&mut self, wave: Wave) -> Self {
                let mut wave_children = Self::default();
                $(if Wave::$wave == wave {
                    wave_children.$field = std::mem::take(&mut self.$field);
                })*
                wave_children
            }

            /// Appends the children of another set.
            pub fn append(&mut self, others: Self) {
                $(self.$field.extend(others.$field);)*
            }

            /// The children by kind and name, in the order of the table.
            pub fn references(&self) -> impl Iterator<Item = ObjectRef> {
                let all = std::iter::empty();
                $(let all = all.chain(
                    self.$field.iter().map(|child| ObjectRef::new(ChildKind::$kind, child.metadata())),
                );)*
                all
            }
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

            /// The same kind as a [`Kind`].
            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$kind => Kind::$kind,)*
                }
            }
        }
    };
}

crate::kinds!(children children);

/// One child by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The kind of the child.
    pub kind: ChildKind,
    /// Its namespace and name.
    pub key: Key,
}

// === impl Children ===

impl<S> Children<S> {
    /// The child of that kind and name, if the service has one.
    pub fn named<K: Child>(&self, name: &str) -> Option<&K> {
        K::of(self).iter().find(|child| child.metadata().name.as_deref() == Some(name))
    }

    /// The Deployment of that name, if the service has one.
    pub fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.named(name)
    }

    /// The LeaderWorkerSet of that name, if the service has one.
    pub fn leader_worker_set(&self, name: &str) -> Option<&LeaderWorkerSet> {
        self.named(name)
    }

    /// The template of the pods that have an API: those of the Deployment of this name, or else the leaders of this LeaderWorkerSet.
    pub fn serving_pods(&self, deployment: &str, group: &str) -> Option<&PodTemplateSpec> {
        if let Some(found) = self.deployment(deployment) {
            return Some(&found.spec.as_ref()?.template);
        }
        let group = &self.leader_worker_set(group)?.spec.leader_worker_template;
        // Without a leader template, LeaderWorkerSet makes the leaders, too, from the template of the workers.
        Some(group.leader_template.as_ref().unwrap_or(&group.worker_template))
    }
}

// === impl ObjectRef ===

impl ObjectRef {
    /// The object of that kind with this metadata.
    pub(crate) fn new(kind: ChildKind, metadata: &ObjectMeta) -> Self {
        Self { kind, key: Key::of_metadata(metadata) }
    }

    /// The key of this object.
    pub fn key(&self) -> ObjectKey {
        self.key.clone().of_kind(self.kind.kind())
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.go_type(), self.key.namespace, self.key.name)
    }
}
