use longboat_schema::StructuralSchema;
use longboat_types::{Presence, Shape, TypeDef, type_def, type_names};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Comparison, compare, field_set, inflate, merge, remove, validate};
use crate::{fields::Set, schema::Node};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3..3_i64).prop_map(Value::from),
        Just(json!(1.5)),
        "[a-c]".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            "containers",
            "name",
            "metadata",
            "spec",
            "ports",
            "labels",
            "env",
            "template",
            "[a-b]"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::hash_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Objects that match a type, small enough to differ in interesting ways.
fn pod_spec() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[a-c]", "[x-z]", 0..3).prop_map(|map| {
        map.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    });
    let container = (env, prop::option::of("[i-k]"), prop::collection::vec("[p-q]", 0..2));
    let containers = prop::collection::btree_map("[a-d]", container, 0..4);
    (containers.prop_shuffle_values(), prop::collection::btree_map("[a-b]", "[x-y]", 0..2), any::<bool>()).prop_map(
        |(containers, selector, host)| json!({"containers": containers, "nodeSelector": selector, "hostNetwork": host}),
    )
}

/// Container lists in any order.
trait ShuffleValues {
    fn prop_shuffle_values(self) -> BoxedStrategy<Vec<Value>>;
}

impl<S> ShuffleValues for S
where
    S: Strategy<Value = std::collections::BTreeMap<String, (Vec<Value>, Option<String>, Vec<String>)>>
        + 'static,
{
    fn prop_shuffle_values(self) -> BoxedStrategy<Vec<Value>> {
        self.prop_map(|map| {
            map.into_iter()
                .map(|(name, (env, image, args))| {
                    let mut container = json!({"name": name, "env": env, "args": args});
                    if let Some(image) = image {
                        container["image"] = json!(image);
                    }
                    container
                })
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
        .boxed()
    }
}

const POD: &str = "core.v1.PodSpec";

fn node() -> Node<'static> {
    Node::Type(type_def(POD).unwrap())
}

proptest! {
    #[test]
    fn a_strategic_patch_applied_twice_changes_nothing_more(a in pod_spec(), b in pod_spec()) {
        let once = crate::strategic::merge(a, b.clone(), POD).unwrap();
        prop_assert_eq!(crate::strategic::merge(once.clone(), b, POD).unwrap(), once);
    }

    #[test]
    fn an_object_applied_over_another_is_contained_in_the_result(a in pod_spec(), b in pod_spec()) {
        let merged = merge(&a, &b, node()).unwrap();
        prop_assert!(validate(&merged, node(), false).is_ok());
        let wanted = field_set(&b, node());
        prop_assert!(wanted.difference(&field_set(&merged, node())).is_empty());
        let Comparison { modified, added, .. } = compare(&merged, &b, node());
        prop_assert!(modified.is_empty() && added.is_empty());
        prop_assert_eq!(merge(&merged, &b, node()).unwrap(), merged);
    }

    #[test]
    fn nothing_differs_from_itself_and_all_that_is_removed_is_gone(a in pod_spec(), b in pod_spec()) {
        prop_assert_eq!(compare(&a, &a, node()), Comparison::default());
        let taken = field_set(&a, node()).difference(&field_set(&b, node()));
        let left = field_set(&remove(&a, &taken, node()), node());
        prop_assert!(taken.paths().iter().all(|path| !left.has(&path.0)));
    }

    #[test]
    fn no_json_makes_anything_panic(a in json_value(), b in json_value()) {
        for type_name in ["core.v1.PodTemplateSpec", "apps.v1.Deployment", "serving.v1alpha2.LLMInferenceServiceSpec"] {
            let node = Node::Type(type_def(type_name).unwrap());
            let _ = crate::strategic::merge(a.clone(), b.clone(), type_name);
            let _ = validate(&a, node, true);
            let _ = merge(&a, &b, node);
            let _ = compare(&a, &b, node);
            let _ = remove(&a, &field_set(&b, node), node);
            let _ = Set::from_fields_v1(&a);
            let schema = StructuralSchema::of(&b, false);
            let custom = Node::CustomRoot { schema: schema.root() };
            let _ = validate(&a, custom, false);
            let _ = field_set(&a, custom);
        }
    }
}

/// Follows the fields that are always present. A type that always contains itself would never end.
fn depth(def: &'static TypeDef, above: &mut Vec<&'static str>) {
    assert!(!above.contains(&def.name), "{} contains itself", def.name);
    above.push(def.name);
    for field in &def.fields {
        if field.presence == Presence::Zero
            && let Shape::Message { name, .. } = field.shape
        {
            depth(type_def(name).unwrap(), above);
        }
    }
    above.pop();
}

#[test]
fn zero_values_end() {
    for name in type_names() {
        depth(type_def(name).unwrap(), &mut Vec::new());
    }
    let mut inflated = json!({});
    inflate(&mut inflated, type_def("apps.v1.Deployment").unwrap());
    assert_eq!(inflated["spec"]["template"]["spec"]["containers"], Value::Null);
    assert_eq!(inflated["status"], json!({}));
}
