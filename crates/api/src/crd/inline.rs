//! Turns the output of schemars into a structural schema: resolves references and applies Longboat's marks.

use std::{cell::RefCell, collections::BTreeMap};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::{core_types, vendored};

/// The prefix of the schema names of core types.
const CORE: &str = "io.k8s.";

type Object = Map<String, Value>;

/// Returns the structural schema of a type.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.transforms.clear();
    let mut generator = settings.into_generator();
    let root = generator.subschema_for::<T>().to_value();
    let definitions = generator.take_definitions(false);
    Inliner { definitions, resolved: RefCell::default() }.resolve(root, false)
}

/// Changes a structural schema, and those of its fields, items and values.
pub(super) fn each_schema(schema: &mut Value, change: &dyn Fn(&mut Object)) {
    let Value::Object(object) = schema else { return };
    change(object);
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|schema| each_schema(schema, change));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = object.get_mut(key) {
            each_schema(schema, change);
        }
    }
}

struct Inliner {
    definitions: Object,
    /// Resolved definitions by name. They are cached because a spec contains six pods, and a pod three kinds of containers.
    resolved: RefCell<BTreeMap<String, Object>>,
}

impl Inliner {
    /// Resolves a schema. `core` says that the schema is inside a core type, whose descriptions are dropped.
    fn resolve(&self, schema: Value, core: bool) -> Value {
        let Value::Object(mut object) = schema else { return schema };
        if object.remove(vendored::COMPLETE).is_some() {
            return Value::Object(object);
        }
        let object = without_null(object);
        let Some(Value::String(reference)) = object.get("$ref") else {
            return Value::Object(self.finish(object, core, None));
        };
        let name = reference.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
        let mut resolved = self.definition(&name, core);
        // A keyword of a field overrides the keyword of its type.
        let mut beside = object;
        beside.remove("$ref");
        let optional_containers = beside.remove("x-optional-containers").is_some();
        let beside = self.finish(beside, core, None);
        resolved.extend(beside);
        // A pod requires its containers, and nothing else. In a service they may come from a preset.
        if optional_containers {
            resolved.remove("required");
        }
        Value::Object(resolved)
    }

    /// Returns the definition `name` with its references resolved.
    fn definition(&self, name: &str, core: bool) -> Object {
        if let Some(known) = self.resolved.borrow().get(name) {
            return known.clone();
        }
        let target = match self.definitions.get(name) {
            Some(Value::Object(target)) => without_null(target.clone()),
            _ => Object::new(),
        };
        let resolved = if target.contains_key("$ref") {
            // The type is a newtype around another named type.
            match self.resolve(Value::Object(target), core) {
                Value::Object(resolved) => resolved,
                _ => Object::new(),
            }
        } else {
            self.finish(target, name.starts_with(CORE), Some(name))
        };
        // Core types refer to core types only, so `core` need not be a part of the key.
        self.resolved.borrow_mut().insert(name.to_owned(), resolved.clone());
        resolved
    }

    fn finish(&self, mut object: Object, core: bool, name: Option<&str>) -> Object {
        object.remove("default");
        object.remove("title");
        if core {
            object.remove("description");
        } else if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace('\n', " ");
        }
        if let Some(default) = object.remove("x-default") {
            object.insert("default".to_owned(), default);
        }
        if let Some(Value::Object(properties)) = object.remove("properties") {
            let mut required: Vec<Value> = if core {
                object.remove("required").and_then(|r| r.as_array().cloned()).unwrap_or_default()
            } else {
                object.remove("required");
                Vec::new()
            };
            let mut resolved = Object::new();
            for (field, schema) in properties {
                let mut schema = self.resolve(schema, core);
                if let Value::Object(s) = &mut schema
                    && s.remove("x-required").is_some()
                {
                    required.push(Value::String(field.clone()));
                }
                resolved.insert(field, schema);
            }
            object.insert("properties".to_owned(), Value::Object(resolved));
            required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            if !required.is_empty() {
                object.insert("required".to_owned(), Value::Array(required));
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(schema) = object.remove(key) {
                object.insert(key.to_owned(), self.resolve(schema, core));
            }
        }
        if let Some(name) = name.filter(|name| name.starts_with(CORE)) {
            core_types::complete(name, &mut object);
        }
        object
    }
}

/// Drops keywords that only allow null: optional fields of the API are absent, never null.
fn without_null(mut object: Object) -> Object {
    if let Some(Value::Array(types)) = object.get("type") {
        let first = types.iter().find(|t| t.as_str() != Some("null")).cloned();
        if let Some(first) = first {
            object.insert("type".to_owned(), first);
        }
    }
    let is_null = |s: &Value| s.get("type").and_then(Value::as_str) == Some("null");
    let choices = match object.get("anyOf") {
        Some(Value::Array(choices)) if choices.len() == 2 && choices.iter().any(is_null) => choices.clone(),
        _ => return object,
    };
    object.remove("anyOf");
    if let Some(Value::Object(choice)) = choices.into_iter().find(|s| !is_null(s)) {
        for (key, value) in choice {
            object.entry(key).or_insert(value);
        }
    }
    object
}
