//! Advice for common mistakes with an obvious solution.

use longboat_api::v1alpha2::GROUP;
use longboat_key::nearest;
use longboat_manifest::Document;
use longboat_strategy::kinds::Resource;
use serde_json::Value;

/// How Go's decoder begins its complaint about a text where it expects bytes.
pub(crate) const NOT_BASE64: &str = "illegal base64";

/// What an API server says first about a quantity that is neither a string nor an integer.
pub(crate) const MISTYPED_QUANTITY: &str = "must be of type integer,string";

/// Fields from documents and other tools that this API has at another path. A line has the last names of their paths, and the advice.
/// `@` and a version say that only this version has the field elsewhere. The first line that fits is used.
const RELOCATED_FIELDS: &str = include_str!("relocated_fields.txt");

/// Fields of a pod that people write beside its template.
const OF_PODS: [&str; 9] = [
    "affinity",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "serviceAccountName",
    "tolerations",
    "volumes",
];

/// Advice about our own kinds for messages that contain a text.
const MESSAGE_ADVICE: &[(&str, &str)] = &[
    (
        "replicas and scaling are mutually exclusive",
        "remove `replicas`: with `scaling` the autoscaler sets the number of replicas",
    ),
    (
        "replicas are mutually exclusive",
        "remove `replicas`: with `scaling` the autoscaler sets the number of replicas",
    ),
    ("cannot exceed maxReplicas", "raise `maxReplicas`, or lower `minReplicas`"),
    ("dataLocal must be set when data is set", "add `dataLocal`, the number of `data` replicas on one node"),
    ("data must be set when dataLocal is set", "add `data`, the number of replicas on all nodes"),
    ("wva and keda are mutually exclusive", "remove `wva` or `keda`"),
    ("hpa and keda are mutually exclusive", "remove `hpa` or `keda`"),
    (
        "exactly one of spec or ref must be set",
        "set `ref: {name}` for an existing claim, or `spec` for a new claim",
    ),
    ("lora.adapters of type", "each adapter is an object: write `- {name: NAME, uri: hf://OWNER/MODEL}`"),
    ("exactly one of emptyDir or pvc must be set", "keep either `emptyDir` or `pvc`"),
];

/// Advice for a field that its kind does not have.
pub(crate) fn unknown_field(version: &str, resource: &Resource, path: &str) -> Option<String> {
    if resource.group != GROUP {
        return None;
    }
    if let Some(advice) = flat_selector(version, path) {
        return Some(advice);
    }
    let names: Vec<&str> = path.split('.').map(|name| name.split('[').next().unwrap_or_default()).collect();
    let fits = |field: &str| {
        let (tail, only) = field.split_once('@').unwrap_or((field, version));
        only == version && names.ends_with(&tail.split('.').collect::<Vec<_>>())
    };
    let relocated = RELOCATED_FIELDS.lines().find_map(|line| {
        let (fields, advice) = line.split_once(": ")?;
        fields.split(' ').any(fits).then(|| advice.to_owned())
    });
    relocated.or_else(|| match names.as_slice() {
        [above @ .., "spec" | "prefill", field] if above.len() < 2 && OF_PODS.contains(field) => {
            let parent = path.strip_suffix(field)?;
            Some(format!("this is a field of a pod: write `{parent}template.{field}`"))
        }
        _ => None,
    })
}

/// Returns advice for a selector in the form of the wrong version: the selector of a pool is flat in v1alpha1 and has
/// `matchLabels` in v1alpha2.
fn flat_selector(version: &str, path: &str) -> Option<String> {
    let (_, below) = path.split_once("pool.spec.selector")?;
    (version != "v1alpha1" && !below.is_empty()).then(|| {
        "this is the v1alpha1 form of a pool: in v1alpha2 write labels below `selector.matchLabels`"
            .to_owned()
    })
}

/// Advice for a message about a field.
pub(crate) fn of(resource: &Resource, document: &Document, path: &str, message: &str) -> Option<String> {
    if resource.kind == "Secret" && message.contains(NOT_BASE64) {
        return Some("the values of `data` are base64: write plain text below `stringData`".to_owned());
    }
    if resource.group == GROUP
        && let Some((_, advice)) = MESSAGE_ADVICE.iter().find(|(text, _)| message.contains(text))
    {
        return Some((*advice).to_owned());
    }
    if resource.group == GROUP
        && path.ends_with("worker")
        && message.contains("parallelism must be configured")
    {
        return Some(
            "add `parallelism` with `data` and `dataLocal`, or with `pipeline`: it determines the number \
             of pods of a replica"
                .to_owned(),
        );
    }
    if resource.group == GROUP && message.contains("Required value") && path.contains("scheduler.pool.spec.")
    {
        return Some(
            "a pool of your own needs all of its fields: remove `pool.spec` to have the pool of the preset, or set `selector`, \
             `targetPorts` and `endpointPickerRef`"
                .to_owned(),
        );
    }
    let value = document.value(path).and_then(Value::as_str);
    if message.contains("template: ")
        && message.contains('\\')
        && value.is_some_and(|text| text.contains('"'))
    {
        return Some(
            "write backquotes (`) in place of double quotes: the template is rendered in JSON, where a double quote has a \
             backslash before it"
                .to_owned(),
        );
    }
    if let Some(text) = value
        && text.contains("{{")
        && resource.kind == "LLMInferenceService"
    {
        return Some(
            "templates are only rendered in LLMInferenceServiceConfigs: move this field to a config, and \
             name the config in `baseRefs`"
                .to_owned(),
        );
    }
    if let Some(hint) = value.and_then(placeholder) {
        return Some(hint);
    }
    if message.contains("Unsupported value") {
        return one_of(value?, message);
    }
    if message.contains("selector")
        && path.contains("pool.spec.selector")
        && message.contains("must be of type")
    {
        return flat_selector(&resource.version, &format!("{path}.x")).or_else(|| {
            Some("in v1alpha1 write labels directly below `selector`, without `matchLabels`".to_owned())
        });
    }
    if message.contains(MISTYPED_QUANTITY)
        && let Some(Value::Number(number)) = document.value(path)
    {
        return Some(if path.contains('/') {
            "devices are counted: write a whole number".to_owned()
        } else {
            format!("write it in quotes: \"{number}\"")
        });
    }
    if is_quantity(path, message) {
        return Some(
            "write an amount as 500m, 2, 1.5 or 16Gi (Ki, Mi, Gi, Ti count in 1024, k, M, G, T in 1000)"
                .to_owned(),
        );
    }
    wrong_type(resource, path, document.value(path)?, message)
}

/// Advice about the first variable of a shell in a text, or about a text that is to be replaced as a whole.
pub(crate) fn placeholder(text: &str) -> Option<String> {
    if text.starts_with('<') && text.ends_with('>') {
        return Some(format!("replace the placeholder `{text}` first"));
    }
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let variable = if text.strip_prefix('$').is_some_and(is_name) {
        text
    } else {
        let start = text.find("${")?;
        let length = text[start..].find('}')?;
        &text[start..=start + length]
    };
    Some(format!("`{variable}` is not replaced here: run `envsubst` first, or write the value"))
}

/// Suggests one of the values that a message lists.
fn one_of(value: &str, message: &str) -> Option<String> {
    let (_, listed) = message.split_once("supported values: ")?;
    let known = listed.split(", ").map(|value| value.trim_matches('"'));
    nearest(known, value).map(|meant| format!("did you mean `{meant}`?"))
}

fn is_quantity(path: &str, message: &str) -> bool {
    let of_resources = path.contains("resources.limits") || path.contains("resources.requests");
    message.contains("quantit")
        || message.contains("[numkMGTPE]")
        || message.contains("KMGTPE") && of_resources
}

/// Advice for a wrong type: quotes distinguish a number from a string, and what looks like a switch or a name may be an
/// object.
fn wrong_type(resource: &Resource, path: &str, value: &Value, message: &str) -> Option<String> {
    // The second form is that of Go's decoder.
    let expects = |name: &str| {
        message.contains(&format!("must be of type {name}")) || message.ends_with(&format!(" of type {name}"))
    };
    match value {
        // The text of a float is not known: 1.10 is read as 1.1.
        Value::Number(number) if number.is_f64() && expects("string") => {
            Some("the value must be a string: put it in quotes".to_owned())
        }
        // Nor is that of a boolean: YAML reads yes, on, y and their opposites as booleans, too.
        Value::Bool(_) if expects("string") => {
            Some("the value must be a string: put what is written here in quotes".to_owned())
        }
        Value::Number(_) if expects("string") => Some(match key(path) {
            Some(key) => format!("the value must be a string: write `{key}: \"{value}\"`"),
            None => format!("put it in quotes: \"{value}\""),
        }),
        Value::String(text) if ["integer", "int32", "int64"].into_iter().any(expects) => {
            let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            number.parse::<i64>().ok()?;
            Some(if number == text {
                format!("write it without quotes: {text}")
            } else {
                "write a whole number, without a unit and without quotes".to_owned()
            })
        }
        Value::String(text) if expects("boolean") => Some(match text.as_str() {
            "true" | "false" => format!("write it without quotes: {text}"),
            _ => "write true or false".to_owned(),
        }),
        Value::Bool(true) if expects("object") => {
            Some("this is an object: write `{}` to have it with its defaults".to_owned())
        }
        Value::Bool(false) if expects("object") => {
            Some("this is an object: remove the field to do without it".to_owned())
        }
        Value::String(text) if expects("object") && text.contains('\n') => Some(
            "these lines are one text: remove the `|` or `>` after the colon, so that they are fields"
                .to_owned(),
        ),
        Value::String(name) if expects("object") && path.ends_with(']') && has_name(resource, path) => {
            Some(format!("each item is an object: write `- name: {name}`"))
        }
        Value::String(_) | Value::Number(_) if expects("object") => {
            Some("this is an object: write its fields below it, or `{}` for an empty one".to_owned())
        }
        // The values may be secret.
        Value::Object(entries) if expects("array") && path.rsplit('.').next() == Some("env") => {
            let name = entries.keys().next()?;
            Some(format!("write each variable as an item of a list: `- {{name: {name}, value: …}}`"))
        }
        Value::Object(_) | Value::Array(_) if expects("string") && resource.kind == "ConfigMap" => Some(
            "the value is a text: write `|` after the colon, so that the lines below it are one".to_owned(),
        ),
        Value::Object(fields)
            if expects("string")
                && let Some(name) = fields.get("name").and_then(Value::as_str) =>
        {
            let field = path.rsplit('.').next().unwrap_or(path);
            Some(format!("the value is the name itself: write `{field}: {name}`"))
        }
        Value::Array(_) if expects("string") => {
            Some("the value must be one string: write it without brackets and dashes".to_owned())
        }
        _ if expects("array") && !value.is_null() => {
            Some("this is a list: start each item with `- `".to_owned())
        }
        Value::Null if expects("object") => {
            Some("write `{}` for an empty object, or remove the field".to_owned())
        }
        _ => None,
    }
}

/// Returns the key of an annotation or label from its path.
fn key(path: &str) -> Option<&str> {
    ["annotations", "labels"].into_iter().find_map(|map| {
        let (_, key) = path.split_once(map)?;
        key.strip_prefix('.').or_else(|| key.strip_prefix('[')?.strip_suffix(']'))
    })
}

/// Whether the object at a path has a field `name`.
fn has_name(resource: &Resource, path: &str) -> bool {
    let Some(definition) = resource.custom() else { return false };
    let at = path.split('.').try_fold(definition.schema.root(), |schema, part| {
        let (name, indexes) =
            part.split_once('[').map_or((part, 0), |(name, rest)| (name, 1 + rest.matches('[').count()));
        (0..indexes).try_fold(schema.property(name)?, |schema, _| schema.items.as_deref())
    });
    at.is_some_and(|schema| schema.property("name").is_some())
}
