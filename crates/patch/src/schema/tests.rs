use serde_json::json;

use super::{Node, Relation, Scalar};
use longboat_schema::StructuralSchema;
use longboat_types::type_of_kind;

#[test]
fn both_kinds_of_schema_answer_alike() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "entries": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}
            },
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true},
        }}},
    });
    let schema = StructuralSchema::of(&schema, false);
    let root = Node::CustomRoot { schema: schema.root() }.atom().map.unwrap();
    assert!(root.entry("metadata").unwrap().atom().map.unwrap().field("labels").is_some());
    assert!(root.entry("nothing").is_none());
    let spec = root.entry("spec").unwrap().atom().map.unwrap();
    let entries = spec.entry("entries").unwrap().atom().list.unwrap();
    assert_eq!(entries.relation, Relation::Keys(vec!["name"]));
    assert!(spec.entry("selector").unwrap().atom().map.unwrap().atomic);
    assert!(spec.entry("raw").unwrap().atom().map.unwrap().is_deduced());
    assert_eq!(spec.entry("port").unwrap().atom().scalar, Some(Scalar::Any));

    let pod = Node::Type(type_of_kind("v1", "Pod").unwrap()).atom().map.unwrap();
    let spec = pod.entry("spec").unwrap().atom().map.unwrap();
    let containers = spec.entry("containers").unwrap().atom().list.unwrap();
    assert_eq!(containers.relation, Relation::Keys(vec!["name"]));
    assert!(spec.entry("nodeSelector").unwrap().atom().map.unwrap().atomic);
    assert!(spec.entry("nothing").is_none());
}

#[test]
fn a_root_without_fields_keeps_everything() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = StructuralSchema::of(&schema, false);
    let root = Node::CustomRoot { schema: schema.root() }.atom().map.unwrap();
    assert!(matches!(root.entry("anything"), Some(Node::Deduced)));
    assert!(root.field("metadata").is_some());
}
