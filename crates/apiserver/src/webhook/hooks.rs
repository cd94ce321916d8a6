//! Admission webhooks, read from their configuration objects.

use std::{sync::Arc, time::Duration};

use longboat_schema::Program;
use serde_json::{Map, Value};

use crate::{
    kinds::{Registry, Resource},
    review::Review,
    status::ApiError,
    store::{Key, Store},
    strategy,
};

/// The store tables of the two kinds of configuration.
const TABLES: [&str; 2] = [
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
];

/// The two kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating = 0,
    Validating = 1,
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client: Value,
    pub(super) ignore_failures: bool,
    pub(super) timeout: Duration,
    pub(super) reinvoke: bool,
    exact: bool,
    rules: Vec<Rule>,
    namespaces: Value,
    objects: Value,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    operations: Vec<String>,
    scope: String,
}

#[derive(Debug)]
struct Condition {
    source: String,
    program: Result<Program, String>,
}

/// The webhooks of both kinds. They are cached until a configuration changes, so that conditions are compiled once.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    lists: [ConfigurationCache; 2],
}

#[derive(Debug, Default)]
struct ConfigurationCache {
    /// Name and revision of each configuration that was read.
    from: Vec<(String, u64)>,
    hooks: Arc<Vec<Hook>>,
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

// === impl Hooks ===

impl Hooks {
    /// Returns the webhooks of one kind in the order of their calls: sorted by the name of their configuration.
    pub(super) fn current(&mut self, store: &Store, kind: Kind) -> Arc<Vec<Hook>> {
        let snapshot = store.list(TABLES[kind as usize], None);
        let from: Vec<(String, u64)> =
            snapshot.objects.iter().map(|(key, stored)| (key.name.clone(), stored.revision)).collect();
        let read = &mut self.lists[kind as usize];
        if read.from != from {
            let configured = snapshot.objects.iter().map(|(_, stored)| &stored.value["webhooks"]);
            read.hooks = Arc::new(configured.filter_map(Value::as_array).flatten().map(Hook::read).collect());
            read.from = from;
        }
        Arc::clone(&read.hooks)
    }
}

// === impl Hook ===

impl Hook {
    fn read(hook: &Value) -> Self {
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            client: hook["clientConfig"].clone(),
            ignore_failures: hook["failurePolicy"] == "Ignore",
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
            reinvoke: hook["reinvocationPolicy"] == "IfNeeded",
            exact: hook["matchPolicy"] == "Exact",
            rules: hook["rules"].as_array().into_iter().flatten().map(Rule::read).collect(),
            namespaces: hook["namespaceSelector"].clone(),
            objects: hook["objectSelector"].clone(),
            conditions: hook["matchConditions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Condition::read)
                .collect(),
        }
    }

    /// Returns the resource version in which the webhook wants to see the object, or `None` if the webhook is not called.
    pub(super) fn wants(
        &self,
        registry: &Registry,
        store: &Store,
        review: &Review<'_>,
        object: Option<&Value>,
    ) -> Option<Arc<Resource>> {
        let resource = self.resource(registry, review)?;
        (self.namespace_selected(store, review, object) && self.object_selected(object, review.old))
            .then_some(resource)
    }

    fn resource(&self, registry: &Registry, review: &Review<'_>) -> Option<Arc<Resource>> {
        let matches = |resource: &Resource| self.rules.iter().any(|rule| rule.matches(review, resource));
        if matches(review.resource) {
            return Some(Arc::new(review.resource.clone()));
        }
        // Other versions of a resource have the same plural name, so this cheap check excludes most webhooks.
        if self.exact || !self.rules.iter().any(|rule| rule.names(review)) {
            return None;
        }
        registry
            .groups()
            .values()
            .flat_map(|versions| versions.values())
            .flatten()
            .find(|other| other.table == review.resource.table && matches(other))
            .cloned()
    }

    fn namespace_selected(&self, store: &Store, review: &Review<'_>, object: Option<&Value>) -> bool {
        if self.namespaces.as_object().is_none_or(Map::is_empty) {
            return true;
        }
        let is_namespace = review.resource.group.is_empty() && review.resource.plural == "namespaces";
        if is_namespace {
            return strategy::selects(&self.namespaces, labels(object.or(review.old)));
        }
        let Some(namespace) = review.namespace.as_deref().filter(|name| !name.is_empty()) else {
            return true;
        };
        let stored = store.get("/namespaces", &Key::new("", namespace));
        strategy::selects(&self.namespaces, labels(stored.as_ref().map(|stored| &*stored.value)))
    }

    fn object_selected(&self, object: Option<&Value>, old: Option<&Value>) -> bool {
        if self.objects.as_object().is_none_or(Map::is_empty) {
            return true;
        }
        [object, old]
            .into_iter()
            .flatten()
            .any(|object| strategy::selects(&self.objects, labels(Some(object))))
    }

    /// Whether all match conditions are true for the `request` of the review. An error only counts if no condition is false.
    pub(super) fn conditions_hold(&self, request: &Value, review: &Review<'_>) -> Result<bool, ApiError> {
        let mut errors = Vec::new();
        for condition in &self.conditions {
            let verdict = match &condition.program {
                Ok(program) => program.holds(&[
                    ("object", &request["object"]),
                    ("oldObject", &request["oldObject"]),
                    ("request", request),
                ]),
                Err(why) => Err(why.clone()),
            };
            match verdict {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    errors.push(format!("expression '{}' resulted in error: {why}", condition.source));
                }
            }
        }
        let why = match errors.as_slice() {
            [] => return Ok(true),
            _ if self.ignore_failures => return Ok(false),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(ApiError::forbidden(review.resource.about(&review.name), why))
    }
}

fn labels(object: Option<&Value>) -> &Value {
    object.map_or(&Value::Null, |object| &object["metadata"]["labels"])
}

// === impl Condition ===

impl Condition {
    fn read(condition: &Value) -> Self {
        let source = condition["expression"].as_str().unwrap_or_default().to_owned();
        Self { program: Program::compile(&source).map(Program::runnable), source }
    }
}

// === impl Rule ===

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            operations: texts(&rule["operations"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn matches(&self, review: &Review<'_>, resource: &Resource) -> bool {
        let any =
            |values: &[String], wanted: &str| values.iter().any(|value| value == "*" || value == wanted);
        let in_namespace =
            review.namespace.as_deref().is_some_and(|name| !name.is_empty()) && resource.namespaced;
        any(&self.operations, review.operation)
            && any(&self.groups, &resource.group)
            && any(&self.versions, &resource.version)
            && match self.scope.as_str() {
                "Namespaced" => in_namespace,
                "Cluster" => !in_namespace,
                _ => true,
            }
            && self.names(review)
    }

    /// Whether a pattern of the rule matches the resource's name and the subresource.
    fn names(&self, review: &Review<'_>) -> bool {
        self.resources.iter().any(|pattern| {
            let (main, sub) = pattern.split_once('/').map_or((pattern.as_str(), None), |(m, s)| (m, Some(s)));
            (main == "*" || main == review.resource.plural)
                && match (sub, review.subresource) {
                    (None, None) | (Some("*"), _) => true,
                    (Some(sub), Some(wanted)) => sub == wanted,
                    (None, Some(_)) | (Some(_), None) => false,
                }
        })
    }
}
