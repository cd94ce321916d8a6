//! Paths and operations of a resource.

use serde_json::{Map, Value, json};

use super::components::{DELETE_OPTIONS, PATCH, STATUS, kind_of, reference};
use crate::kinds::Resource;

/// Adds the paths of `resource`, whose component is `name`.
pub(super) fn add(resource: &Resource, name: &str, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let has = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    let operations = Operations { resource, name };
    let collection = if resource.namespaced {
        if has("list") {
            let mut all = Map::new();
            all.insert("get".to_owned(), operations.list("ForAllNamespaces"));
            all.insert("parameters".to_owned(), json!([query("pretty", "string")]));
            paths.insert(format!("{root}/{}", resource.plural), Value::Object(all));
        }
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };

    let mut many = Map::new();
    if has("list") {
        many.insert("get".to_owned(), operations.list(""));
    }
    if has("create") {
        many.insert("post".to_owned(), operations.create());
    }
    if has("deletecollection") {
        many.insert("delete".to_owned(), operations.delete("deletecollection", "deleteCollection"));
    }
    many.insert("parameters".to_owned(), operations.shared(false));
    paths.insert(collection.clone(), Value::Object(many));
    if !has("get") {
        return;
    }

    let mut subresources = vec![""];
    if resource.has_status() {
        subresources.push("status");
    }
    if resource.has_scale() {
        subresources.push("scale");
    }
    for subresource in subresources {
        let mut one = Map::new();
        one.insert("get".to_owned(), operations.read(subresource));
        if has("update") {
            one.insert("put".to_owned(), operations.replace(subresource));
        }
        if has("patch") {
            one.insert("patch".to_owned(), operations.patch(subresource));
        }
        if has("delete") && subresource.is_empty() {
            one.insert("delete".to_owned(), operations.delete("delete", "delete"));
        }
        one.insert("parameters".to_owned(), operations.shared(true));
        let below = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        paths.insert(format!("{collection}/{{name}}{below}"), Value::Object(one));
    }
}

struct Operations<'a> {
    resource: &'a Resource,
    name: &'a str,
}

// === impl Operations ===

impl Operations<'_> {
    fn list(&self, suffix: &str) -> Value {
        let mut operation =
            self.operation("list", "list", suffix, "list objects of kind", &format!("{}List", self.name));
        operation["parameters"] = json!([
            query("allowWatchBookmarks", "boolean"),
            query("continue", "string"),
            query("fieldSelector", "string"),
            query("labelSelector", "string"),
            query("limit", "integer"),
            query("resourceVersion", "string"),
            query("resourceVersionMatch", "string"),
            query("sendInitialEvents", "boolean"),
            query("timeoutSeconds", "integer"),
            query("watch", "boolean"),
        ]);
        operation
    }

    fn create(&self) -> Value {
        let mut operation = self.operation("post", "create", "", "create a", self.name);
        operation["parameters"] = Self::writing();
        operation["requestBody"] = self.body();
        operation["responses"]["201"] = answer("Created", self.name, self.built_in());
        operation["responses"]["202"] = answer("Accepted", self.name, self.built_in());
        operation
    }

    fn read(&self, subresource: &str) -> Value {
        let mut operation =
            self.operation("get", "read", &upper_first(subresource), "read the specified", self.name);
        if !self.built_in() {
            operation["parameters"] = json!([query("resourceVersion", "string")]);
        }
        operation
    }

    fn replace(&self, subresource: &str) -> Value {
        let mut operation =
            self.operation("put", "replace", &upper_first(subresource), "replace the specified", self.name);
        operation["parameters"] = Self::writing();
        operation["requestBody"] = self.body();
        operation["responses"]["201"] = answer("Created", self.name, self.built_in());
        operation
    }

    fn patch(&self, subresource: &str) -> Value {
        let mut operation = self.operation(
            "patch",
            "patch",
            &upper_first(subresource),
            "partially update the specified",
            self.name,
        );
        let mut parameters = Self::writing();
        if let Value::Array(parameters) = &mut parameters {
            parameters.push(query("force", "boolean"));
        }
        operation["parameters"] = parameters;
        let mut media = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if self.built_in() {
            media.push("application/strategic-merge-patch+json");
            operation["responses"]["201"] = answer("Created", self.name, true);
        }
        operation["requestBody"] = json!({"content": content(&media, PATCH), "required": true});
        operation
    }

    fn delete(&self, action: &str, verb: &str) -> Value {
        let collection = action == "deletecollection";
        let what = if collection { "delete collection of" } else { "delete a" };
        let mut operation = self.operation(action, verb, "", what, STATUS);
        let mut parameters = vec![
            query("dryRun", "string"),
            query("gracePeriodSeconds", "integer"),
            query("orphanDependents", "boolean"),
            query("propagationPolicy", "string"),
        ];
        if collection {
            parameters.extend([query("fieldSelector", "string"), query("labelSelector", "string")]);
        } else {
            operation["responses"]["202"] = answer("Accepted", STATUS, self.built_in());
        }
        operation["parameters"] = Value::Array(parameters);
        let media: &[&str] =
            if self.built_in() { &["*/*"] } else { &["application/json", "application/yaml"] };
        operation["requestBody"] = json!({"content": content(media, DELETE_OPTIONS)});
        operation
    }

    fn operation(&self, action: &str, verb: &str, suffix: &str, what: &str, component: &str) -> Value {
        let resource = self.resource;
        let scope = if resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let group = group_name(&resource.group);
        let version = upper_first(&resource.version);
        json!({
            "tags": [format!("{}_{}", lower_first(&group), resource.version)],
            "description": format!("{what} {}", resource.kind),
            "operationId": format!("{verb}{group}{version}{scope}{}{suffix}", resource.kind),
            "responses": {
                "200": answer("OK", component, self.built_in()),
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_of(resource, &resource.kind),
        })
    }

    fn body(&self) -> Value {
        let media: &[&str] =
            if self.built_in() { &["*/*"] } else { &["application/json", "application/yaml"] };
        json!({"content": content(media, self.name), "required": true})
    }

    fn writing() -> Value {
        json!([
            query("dryRun", "string"),
            query("fieldManager", "string"),
            query("fieldValidation", "string")
        ])
    }

    fn shared(&self, named: bool) -> Value {
        let mut parameters = Vec::new();
        let path = |name: &str, description: String| {
            json!({"name": name, "in": "path", "description": description, "required": true,
                   "schema": {"type": "string", "uniqueItems": true}})
        };
        if named {
            parameters.push(path("name", format!("name of the {}", self.resource.kind)));
        }
        if self.resource.namespaced {
            parameters.push(path("namespace", "namespace of the object".to_owned()));
        }
        parameters.push(query("pretty", "string"));
        Value::Array(parameters)
    }

    fn built_in(&self) -> bool {
        self.resource.custom().is_none()
    }
}

fn query(name: &str, kind: &str) -> Value {
    let description = match name {
        "allowWatchBookmarks" => "Whether a watch may send BOOKMARK events.",
        "continue" => "Token of the previous page of a list.",
        "dryRun" => "`All`: process the request without storing the result.",
        "fieldManager" => "Name of the client that makes the change, for the ownership of fields.",
        "fieldSelector" => "Field selector that objects must match.",
        "fieldValidation" => {
            "What to do about unknown and duplicate fields: `Strict` refuses, `Warn` warns, `Ignore` drops them."
        }
        "force" => "Whether an apply takes over fields that others own.",
        "gracePeriodSeconds" => "Seconds until the object is deleted.",
        "labelSelector" => "Label selector that objects must match.",
        "limit" => "Maximum number of objects in one page of a list.",
        "orphanDependents" => "Deprecated: whether dependents are kept; use propagationPolicy.",
        "pretty" => "Whether JSON is indented.",
        "propagationPolicy" => "What happens to dependents: `Orphan`, `Background` or `Foreground`.",
        "resourceVersion" => "How recent the response must be, or where a watch starts.",
        "resourceVersionMatch" => "How a list uses resourceVersion.",
        "sendInitialEvents" => "Whether a watch starts with the existing objects.",
        "timeoutSeconds" => "Seconds after which a list or watch ends.",
        _ => "Whether to send changes as they happen.",
    };
    json!({"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": true}})
}

fn content(media: &[&str], component: &str) -> Value {
    media
        .iter()
        .map(|media| ((*media).to_owned(), json!({"schema": reference(component)})))
        .collect::<Map<_, _>>()
        .into()
}

fn answer(description: &str, component: &str, built_in: bool) -> Value {
    let media: &[&str] = if built_in {
        &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"]
    } else {
        &["application/json", "application/yaml"]
    };
    json!({"description": description, "content": content(media, component)})
}

/// Returns the name of a group in operation ids: `Apps`, `ExampleTest`, `Core`.
fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").filter(|rest| !rest.contains('.')).unwrap_or(group);
    short.split(['.', '-']).map(upper_first).collect()
}

fn upper_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn lower_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
