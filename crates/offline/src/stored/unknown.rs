//! Fields that have no effect: unknown ones, with suggestions, and those without a value.

use longboat_key::nearest;
use longboat_manifest::Document;
use longboat_schema::Node;
use longboat_strategy::kinds::Resource;
use serde_json::Value;

use crate::finding::{Finding, ObjectName, Source};

/// Returns the known sibling that is most similar to the field at `path`.
pub(crate) fn meant(resource: &Resource, document: &Document, path: &str) -> Option<String> {
    let (parent, name) = parent(resource.custom()?.schema.root(), &document.object, path)?;
    nearest(parent.property_names(), name).map(ToOwned::to_owned)
}

/// Warns of fields that adapters do not have. A cluster keeps them, because the schema of adapters is open as in the reference.
pub(crate) fn of_adapters(resource: &Resource, document: &Document, name: &ObjectName) -> Vec<Finding> {
    let spec = resource.custom().and_then(|definition| definition.schema.root().property("spec"));
    let Some(model) = spec.and_then(|spec| spec.property("model")) else { return Vec::new() };
    // An adapter has no adapters.
    let mut known: Vec<&str> = model.property_names().filter(|field| *field != "lora").collect();
    known.sort_unstable();
    let adapters = document.object.pointer("/spec/model/lora/adapters").and_then(Value::as_array);
    let adapters = adapters.into_iter().flatten().enumerate();
    let unknown = adapters.flat_map(|(at, adapter)| {
        let fields = adapter.as_object().into_iter().flat_map(|fields| fields.keys());
        fields.filter(|field| !known.contains(&field.as_str())).map(move |field| (at, field))
    });
    let warning = |(at, field): (usize, &String)| {
        let path = format!("spec.model.lora.adapters[{at}].{field}");
        let message = format!("has no effect: an adapter has only {}", known.join(", "));
        let hint = nearest(known.iter().copied(), field).map(|meant| format!("did you mean `{meant}`?"));
        let finding = Finding::at(document, name, &path, Source::Schema);
        Finding { hint, ..finding.warning("UnknownField", message) }
    };
    unknown.map(warning).collect()
}

/// Warns of parts of a service without a value, such as `route:` where `route: {}` was meant. Servers drop them.
pub(crate) fn without_value(document: &Document, name: &ObjectName) -> Vec<Finding> {
    let mut paths = Vec::new();
    empty_parts(&document.object["spec"], "spec", &mut paths);
    let warning = |path: String| {
        let field = path.rsplit('.').next().unwrap_or_default();
        let hint = format!("write `{field}: {{}}` to have it with its defaults, or remove it");
        let finding = Finding::at(document, name, &path, Source::Schema);
        finding.warning("NoValue", "has no value, so it is ignored").with_hint(hint)
    };
    paths.into_iter().map(warning).collect()
}

/// Collects the parts of a service that are objects and have no value. Fields of pods are often left empty on purpose.
fn empty_parts(part: &Value, path: &str, found: &mut Vec<String>) {
    const PARTS: [&str; 11] = [
        "gateway",
        "hpa",
        "http",
        "keda",
        "parallelism",
        "prefill",
        "route",
        "router",
        "scaling",
        "scheduler",
        "storageInitializer",
    ];
    for (field, value) in
        part.as_object().into_iter().flatten().filter(|(field, _)| PARTS.contains(&field.as_str()))
    {
        let path = format!("{path}.{field}");
        match value {
            Value::Null => found.push(path),
            _ => empty_parts(value, &path, found),
        }
    }
}

/// Returns the schema of the object that has the field at `path`, and the field's name. Walks schema and object together, because keys of
/// maps may contain dots and only the object shows which keys exist.
fn parent<'s, 'p>(schema: &'s Node, object: &Value, path: &'p str) -> Option<(&'s Node, &'p str)> {
    let path = path.trim_start_matches('.');
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        return parent(schema.items.as_deref()?, object.get(index.parse::<usize>().ok()?)?, rest);
    }
    let fields = object.as_object()?;
    let fitting = fields.iter().filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((name, value, rest))
    });
    let (name, value, rest) = fitting.max_by_key(|(name, ..)| name.len())?;
    if rest.is_empty() {
        let at = path.len() - name.len();
        return Some((schema, &path[at..]));
    }
    parent(schema.field(name)?, value, rest)
}
