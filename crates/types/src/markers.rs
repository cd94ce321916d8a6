//! Provides the table's information as OpenAPI extensions, with which server-side apply merges a type as it merges built-in kinds.

use serde_json::{Map, Value, json};

use super::{ListKind, Shape, type_def};

/// Says that server-side apply treats a map or a struct as one value.
pub const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Returns the extensions of a field of a type. The type's name may have the form of OpenAPI (`io.k8s.api.core.v1.Container`). A field
/// that the table does not have has none.
pub fn field_markers(type_name: &str, field: &str) -> Map<String, Value> {
    let field = type_def(type_name).and_then(|def| def.field(field));
    match field.map(|field| &field.shape) {
        Some(Shape::List { kind, .. }) => {
            let (list_type, keys) = match kind {
                ListKind::Atomic => ("atomic", None),
                ListKind::Set => ("set", None),
                ListKind::Map(keys) => ("map", Some(("x-kubernetes-list-map-keys".to_owned(), json!(keys)))),
            };
            [("x-kubernetes-list-type".to_owned(), json!(list_type))].into_iter().chain(keys).collect()
        }
        Some(Shape::Map { atomic, .. }) => map_type(*atomic),
        Some(Shape::Message { name, atomic }) => {
            map_type(*atomic || type_def(name).is_some_and(|def| def.atomic))
        }
        _ => Map::new(),
    }
}

/// Returns the extensions of a type itself: whether the whole struct is atomic.
pub fn type_markers(type_name: &str) -> Map<String, Value> {
    map_type(type_def(type_name).is_some_and(|def| def.atomic))
}

fn map_type(is_atomic: bool) -> Map<String, Value> {
    is_atomic.then(|| (MAP_TYPE.to_owned(), json!("atomic"))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_those_of_the_built_in_kinds() {
        let field = |name, field| Value::Object(field_markers(name, field));
        assert_eq!(
            field("io.k8s.api.core.v1.Container", "ports"),
            json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"]})
        );
        assert_eq!(field("core.v1.Container", "args"), json!({"x-kubernetes-list-type": "atomic"}));
        assert_eq!(field("core.v1.PodSpec", "nodeSelector"), json!({MAP_TYPE: "atomic"}));
        assert_eq!(field("meta.v1.ObjectMeta", "finalizers"), json!({"x-kubernetes-list-type": "set"}));
        assert_eq!(field("core.v1.Container", "nothing"), json!({}));
        let selector = type_markers("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
        assert_eq!(Value::Object(selector), json!({MAP_TYPE: "atomic"}));
    }
}
