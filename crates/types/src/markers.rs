//! Provides the table's information as OpenAPI extensions, for CRDs that embed Kubernetes types.

use super::{ListKind, Shape, type_def};

/// The extensions of a field in a CRD schema, with which server-side apply merges it like a field of built-in kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markers {
    /// `x-kubernetes-list-type`: `atomic`, `set` or `map`.
    pub list_type: Option<&'static str>,
    /// `x-kubernetes-list-map-keys`; empty unless the type is `map`.
    pub list_map_keys: Vec<&'static str>,
    /// `x-kubernetes-map-type`: `atomic` or absent.
    pub map_type: Option<&'static str>,
}

/// Returns the markers of a field of a type. The type's name may have the form of OpenAPI (`io.k8s.api.core.v1.Container`).
/// Returns `None` if the table does not have the type or field.
pub fn field_markers(type_name: &str, field: &str) -> Option<Markers> {
    let shape = &type_def(type_name)?.field(field)?.shape;
    Some(match shape {
        Shape::List { kind, .. } => match kind {
            ListKind::Atomic => Markers { list_type: Some("atomic"), ..Markers::default() },
            ListKind::Set => Markers { list_type: Some("set"), ..Markers::default() },
            ListKind::Map(keys) => {
                Markers { list_type: Some("map"), list_map_keys: keys.clone(), map_type: None }
            }
        },
        Shape::Map { atomic: true, .. } => Markers { map_type: Some("atomic"), ..Markers::default() },
        Shape::Message { name, atomic } => {
            let atomic = *atomic || type_def(name).is_some_and(|def| def.atomic);
            Markers { map_type: atomic.then_some("atomic"), ..Markers::default() }
        }
        _ => Markers::default(),
    })
}

/// Returns the markers of a type itself: whether the whole struct is atomic.
pub fn type_markers(type_name: &str) -> Option<Markers> {
    let def = type_def(type_name)?;
    Some(Markers { map_type: def.atomic.then_some("atomic"), ..Markers::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_those_of_the_built_in_kinds() {
        let markers = field_markers("io.k8s.api.core.v1.Container", "ports").unwrap();
        assert_eq!(markers.list_type, Some("map"));
        assert_eq!(markers.list_map_keys, ["containerPort", "protocol"]);
        assert_eq!(field_markers("core.v1.Container", "args").unwrap().list_type, Some("atomic"));
        assert_eq!(field_markers("core.v1.PodSpec", "nodeSelector").unwrap().map_type, Some("atomic"));
        assert_eq!(field_markers("meta.v1.ObjectMeta", "finalizers").unwrap().list_type, Some("set"));
        let selector = type_markers("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").unwrap();
        assert_eq!(selector.map_type, Some("atomic"));
        assert_eq!(field_markers("core.v1.Container", "nothing"), None);
    }
}
