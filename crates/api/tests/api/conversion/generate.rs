//! Random objects from the schema of the CRDs. Any field may be set, and all fields with defaults are set.

use std::sync::LazyLock;

use longboat_api::crd;
use serde_json::{Map, Value, json};

/// Generated once, because this takes a while.
static CRDS: LazyLock<Vec<Value>> = LazyLock::new(crd::own);

/// A small random number generator (xorshift): the tests only need variety that a seed reproduces.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }
}

/// Returns a `v1alpha2` object of `kind`.
pub(crate) fn newer(kind: &str, dice: &mut Dice) -> Value {
    let crd = CRDS.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|version| version["name"] == "v1alpha2").unwrap();
    let properties = &version["schema"]["openAPIV3Schema"]["properties"];
    let mut object = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": kind,
        "metadata": {"name": "llm", "namespace": "ns"},
    });
    for part in ["spec", "status"] {
        if dice.roll(8) > 0 {
            object[part] = value(&properties[part], dice, 0);
        }
    }
    if dice.roll(2) == 0 {
        object["metadata"]["annotations"] = json!({"a": "b"});
    }
    if object["spec"]["model"].is_object() && dice.roll(3) == 0 {
        object["metadata"]["annotations"]["internal.serving.kserve.io/model-criticality"] = "Critical".into();
    }
    if let Some(adapters) = object.pointer_mut("/spec/model/lora/adapters") {
        *adapters = (0..dice.roll(4)).map(|_| adapter(dice, 0)).collect();
    }
    let adapters = object.pointer("/spec/model/lora/adapters").and_then(Value::as_array).map_or(0, Vec::len);
    if adapters > 0 && dice.roll(3) == 0 {
        let text = format!("{{\"{}\":\"Sheddable\"}}", dice.roll(adapters));
        object["metadata"]["annotations"]["internal.serving.kserve.io/lora-criticalities"] = text.into();
    }
    if object["spec"].is_null() {
        object.as_object_mut().unwrap().remove("spec");
    }
    object
}

/// Returns a `v1alpha1` object of `kind` without kept fields, as an older converter would write it.
pub(crate) fn older(kind: &str, dice: &mut Dice) -> Value {
    let mut object = newer(kind, dice);
    object["apiVersion"] = "serving.kserve.io/v1alpha1".into();
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    let mut remove = |pointer: &str, keys: &[&str]| {
        if let Some(Value::Object(parent)) = object.pointer_mut(pointer) {
            for key in keys {
                parent.remove(*key);
            }
        }
    };
    remove("/spec", &["kvCacheOffloading"]);
    remove("/spec/prefill", &["kvCacheOffloading"]);
    remove("/spec/model", &["confidential"]);
    remove("/status", &["router", "workloads", "appliedConfigs", "referencedBy"]);
    for address in object.pointer_mut("/status/addresses").and_then(Value::as_array_mut).into_iter().flatten()
    {
        for key in ["origin", "models"] {
            address.as_object_mut().unwrap().remove(key);
        }
    }
    if let Some(Value::Object(model)) = object.pointer_mut("/spec/model")
        && dice.roll(2) == 0
    {
        model.insert("criticality".into(), "Standard".into());
    }
    if let Some(pool) = object.pointer_mut("/spec/router/scheduler/pool/spec") {
        *pool = json!({
            "selector": {"app": "a"}, "targetPortNumber": 1 + dice.roll(70_000),
            "extensionRef": {"name": "picker", "kind": "Service", "failureMode": "FailOpen", "portNumber": 5},
        });
        if dice.roll(2) == 0 {
            pool["extensionRef"] =
                json!({"name": "x", "kind": "Other", "group": "g", "failureMode": "FailClose"});
        }
    }
    object
}

fn adapter(dice: &mut Dice, depth: usize) -> Value {
    let mut adapter = json!({"uri": "hf://a/b"});
    if dice.roll(4) > 0 {
        adapter["name"] = dice.pick(&["a", "b", "c"]).into();
    }
    if dice.roll(3) == 0 {
        adapter["criticality"] = [json!("Standard"), json!(""), json!(7), Value::Null][dice.roll(4)].clone();
    }
    if dice.roll(3) == 0 {
        adapter["confidential"] = json!({"enabled": true});
    }
    if dice.roll(4) == 0 {
        adapter["unknown"] = json!([1, {"x": null}]);
    }
    if depth < 2 && dice.roll(3) == 0 {
        adapter["lora"] = json!({"adapters": [self::adapter(dice, depth + 1)]});
    }
    adapter
}

fn value(schema: &Value, dice: &mut Dice, depth: usize) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        return choices[dice.roll(choices.len())].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if dice.roll(2) == 0 { json!(dice.roll(100)) } else { "7".into() };
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, dice, depth),
        Some("array") => {
            let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
            (0..dice.roll(3).max(least)).map(|_| value(&schema["items"], dice, depth + 1)).collect()
        }
        Some("integer") => json!(1 + dice.roll(60_000)),
        Some("number") => json!(1.5),
        Some("boolean") => (dice.roll(2) == 0).into(),
        Some(_) if schema["format"] == "date-time" => "2026-01-02T03:04:05Z".into(),
        Some(_) => dice.pick(&["", "a", "b", "x1"]).into(),
        None => json!({"any": "thing"}),
    }
}

fn object(schema: &Value, dice: &mut Dice, depth: usize) -> Value {
    let Some(properties) = schema["properties"].as_object() else {
        let of = &schema["additionalProperties"];
        let keys = if of.is_object() { dice.roll(3) } else { 0 };
        return Value::Object((0..keys).map(|key| (format!("k{key}"), value(of, dice, depth + 1))).collect());
    };
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let mut fields = Map::new();
    for (name, schema) in properties {
        // Optional fields are rare below the fields of Longboat's own types, so that pods stay small.
        let rare = if depth < 5 { 2 } else { 12 };
        let default = schema.get("default");
        if !required(name) && default.is_none() && dice.roll(rare) > 0 {
            continue;
        }
        let value = match default {
            Some(default) if dice.roll(2) == 0 => default.clone(),
            _ => value(schema, dice, depth + 1),
        };
        fields.insert(name.clone(), value);
    }
    Value::Object(fields)
}
