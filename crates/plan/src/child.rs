//! What every kind of child has.

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    children::{ChildKind, Children, ObjectRef},
    compare::Compare,
    kinds::types,
    observed::ObservedObjects,
    snapshot::Snapshot,
    yaml,
};

/// A kind that children have.
pub trait Child: Compare + Metadata<Ty = ObjectMeta> + Clone + PartialEq {
    /// Its kind.
    const CHILD_KIND: ChildKind;

    /// The live objects of this kind.
    fn observed(snapshot: &Snapshot) -> &ObservedObjects<Self>;

    /// The children of this kind.
    fn of<S>(children: &Children<S>) -> &Vec<Self>;

    /// The children of this kind, mutable.
    fn of_mut<S>(children: &mut Children<S>) -> &mut Vec<Self>;

    /// This object as a YAML document (see [`yaml::object`]).
    fn to_yaml(&self) -> String {
        // Objects have string keys and no enums with data, so this cannot fail.
        yaml::object(self).unwrap_or_default()
    }

    /// This object by kind and name.
    fn reference(&self) -> ObjectRef {
        ObjectRef::new(Self::CHILD_KIND, self.metadata())
    }
}

macro_rules! children {
    ($($(#[$doc:meta])* $field:ident: $kind:ident ($go_type:literal, $wave:ident) $observed:tt;)*) => {
        $(impl Child for types::$kind {
            const CHILD_KIND: ChildKind = ChildKind::$kind;

            fn observed(snapshot: &Snapshot) -> &ObservedObjects<Self> {
                &snapshot.$field
            }

            fn of<S>(children: &Children<S>) -> &Vec<Self> {
                &children.$field
            }

            fn of_mut<S>(children: &mut Children<S>) -> &mut Vec<Self> {
                &mut children.$field
            }
        })*
    };
}

crate::kinds!(children children);
