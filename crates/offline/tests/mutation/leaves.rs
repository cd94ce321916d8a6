//! The leaves of the API, from the schema of our definition, and values for them.

use serde_json::{Value, json};

/// A step on the path from the root of an object to a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A field with this name.
    Field(String),
    /// The first item.
    Item,
}

/// A field without fields of known names.
pub(crate) struct Leaf {
    /// Such as `spec.template.containers[].image`.
    pub(crate) path: String,
    /// The path as steps.
    pub(crate) steps: Vec<Step>,
    /// Values for it. Those that are most likely to have an effect come first.
    pub(crate) values: Vec<Value>,
    /// The length of the path to the part of another API that contains it, if any.
    pub(crate) foreign: Option<usize>,
}

/// The parts that belong to other APIs.
const FOREIGN: [&str; 6] =
    [".template.", ".worker.", ".http.spec.", ".pool.spec.", ".pvc.spec.", ".behavior."];

/// Strings, each of which some field accepts.
const TEXTS: [&str; 19] = [
    "other",
    "another",
    "hf://org/other",
    "pvc://claim/other",
    "s3://bucket/other",
    "0.5",
    "15s",
    "30s",
    "epp",
    "15",
    "console",
    "llm-canary",
    "http",
    "3Gi",
    "always_on",
    "https://other.example.com",
    "Exact",
    "/other",
    "kbs:///a/b/c",
];

// === impl Leaf ===

impl Leaf {
    /// The path of the part of another API that contains it.
    pub(crate) fn subtree(&self) -> Option<&str> {
        Some(&self.path[..self.foreign?])
    }

    /// Whether it is the key of list items, so that another value makes another item.
    pub(crate) fn is_container_name(&self) -> bool {
        self.path.ends_with("ontainers[].name")
    }
}

/// All leaves below `spec`.
pub(crate) fn all(root: &Value) -> Vec<Leaf> {
    let mut found = Vec::new();
    visit(&root["properties"]["spec"], "spec", &mut vec![Step::Field("spec".to_owned())], &mut found);
    found
}

fn visit(schema: &Value, path: &str, steps: &mut Vec<Step>, found: &mut Vec<Leaf>) {
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            steps.push(Step::Field(name.clone()));
            visit(field, &format!("{path}.{name}"), steps, found);
            steps.pop();
        }
    } else if schema["items"]["properties"].is_object() {
        steps.push(Step::Item);
        visit(&schema["items"], &format!("{path}[]"), steps, found);
        steps.pop();
    } else {
        let foreign = FOREIGN.iter().find_map(|part| Some(path.find(part)? + part.len() - 1));
        let values = open(path).unwrap_or_else(|| values(schema));
        assert!(!values.is_empty(), "{path}: no values for {schema}");
        found.push(Leaf { path: path.to_owned(), steps: steps.clone(), values, foreign });
    }
}

/// Values for fields that the schema does not restrict.
fn open(path: &str) -> Option<Vec<Value>> {
    let config = |weight: i32| {
        json!({
            "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
            "plugins": [{"type": "queue-scorer"}, {"type": "max-score-picker"}],
            "schedulingProfiles": [{"name": "default", "plugins": [
                {"pluginRef": "queue-scorer", "weight": weight}, {"pluginRef": "max-score-picker"},
            ]}],
        })
    };
    Some(match path.rsplit('.').next()? {
        "inline" => vec![config(1), config(2)],
        "adapters" => vec![json!([{"name": "other", "uri": "hf://org/other"}]), json!([])],
        "metadata" if path.ends_with("volumeClaimTemplate.metadata") => vec![json!({"labels": {"a": "b"}})],
        _ => return None,
    })
}

/// Values that a schema accepts, or may accept.
fn values(schema: &Value) -> Vec<Value> {
    if let Some(all) = schema["enum"].as_array() {
        return all.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        let texts = if schema["pattern"].is_string() { ["3Gi", "5Gi"] } else { ["25%", "50%"] };
        return texts.into_iter().map(Value::from).chain([json!(1), json!(8080)]).collect();
    }
    match schema["type"].as_str() {
        Some("boolean") => vec![json!(true), json!(false)],
        Some("integer" | "number") => [3, 2, 1, 4, 0, 8, 503].into_iter().map(Value::from).collect(),
        Some("string") => TEXTS.into_iter().map(Value::from).collect(),
        Some("array") => values(&schema["items"]).into_iter().map(|item| json!([item])).collect(),
        Some("object") if schema["additionalProperties"].is_object() => {
            values(&schema["additionalProperties"])
                .into_iter()
                .map(|value| json!({"example.com/key": value}))
                .collect()
        }
        _ => vec![],
    }
}

/// Returns the object with a value at a place. If the value is `None`, only the parents of the place are created, with the
/// fields that they require.
pub(crate) fn with(object: &Value, root: &Value, steps: &[Step], value: Option<&Value>) -> Value {
    let mut object = object.clone();
    put(&mut object, root, steps, value);
    object
}

/// Sets a value at a place, like [`with`].
pub(crate) fn put(object: &mut Value, root: &Value, steps: &[Step], value: Option<&Value>) {
    let (mut place, mut schema) = (object, root);
    for (at, step) in steps.iter().enumerate() {
        let is_last = at + 1 == steps.len();
        match step {
            Step::Field(name) => {
                schema = &schema["properties"][name];
                if is_last {
                    break;
                }
                place = &mut place[name];
                if place.is_null() {
                    *place = if schema["items"].is_object() { json!([]) } else { least(schema, name) };
                }
                choose(place, name, steps.get(at + 1));
            }
            Step::Item => {
                let of = name_of(steps, at);
                schema = &schema["items"];
                if place.as_array().is_none_or(Vec::is_empty) {
                    *place = json!([least(schema, of)]);
                }
                place = &mut place[0];
                choose(place, of, steps.get(at + 1));
            }
        }
    }
    if let (Some(value), Some(Step::Field(name))) = (value, steps.last()) {
        place[name] = value.clone();
    }
}

/// Sets the variant of an object, if the next field belongs to only one variant.
fn choose(place: &mut Value, of: &str, next: Option<&Step>) {
    const FILTERS: [(&str, &str); 7] = [
        ("requestHeaderModifier", "RequestHeaderModifier"),
        ("responseHeaderModifier", "ResponseHeaderModifier"),
        ("requestMirror", "RequestMirror"),
        ("requestRedirect", "RequestRedirect"),
        ("urlRewrite", "URLRewrite"),
        ("cors", "CORS"),
        ("extensionRef", "ExtensionRef"),
    ];
    const PATHS: [(&str, &str); 2] =
        [("replaceFullPath", "ReplaceFullPath"), ("replacePrefixMatch", "ReplacePrefixMatch")];
    let Some(Step::Field(next)) = next else { return };
    let forms = match of {
        "filters" => FILTERS.as_slice(),
        "path" => PATHS.as_slice(),
        "requestMirror" => return place["backendRef"]["port"] = 8000.into(),
        "sessionPersistence" => return place["absoluteTimeout"] = "1h".into(),
        "config" if next == "ref" => return place["ref"] = json!({"name": "least"}),
        _ => return,
    };
    if let Some((_, form)) = forms.iter().find(|(field, _)| field == next) {
        place["type"] = (*form).into();
    }
}

fn name_of(steps: &[Step], at: usize) -> &str {
    match &steps[at - 1] {
        Step::Field(name) => name,
        Step::Item => "",
    }
}

/// Returns the smallest valid value of a schema, for the field or list `of`.
fn least(schema: &Value, of: &str) -> Value {
    if let Some(all) = schema["enum"].as_array() {
        return all[0].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1Gi");
    }
    match schema["type"].as_str() {
        Some("array") => json!([least(&schema["items"], of)]),
        Some("integer" | "number") => json!(5),
        Some("boolean") => json!(true),
        Some("string") if of == "containers" => json!("main"),
        Some("string") => json!("least"),
        _ => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let fields = required.iter().filter_map(Value::as_str).map(|name| {
                let within = if name == "name" { of } else { name };
                (name.to_owned(), least(&schema["properties"][name], within))
            });
            Value::Object(fields.collect())
        }
    }
}
