//! The directory of services and models, for requests that no route matches.

use std::collections::BTreeMap;

use http::uri::{Authority, Uri};
use longboat_api::{annotations, conditions::ConditionStatus, v1alpha2::LLMInferenceService};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

/// The prefix of model names that are unique in a cluster. Each model also has a short name.
const PUBLISHER: &str = "publishers/";

/// A service as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedService {
    pub(crate) name: Key,
    pub(crate) ready: bool,
    /// Whether somebody has stopped it, so that it gets no URL.
    pub(crate) stopped: bool,
    /// Seconds since 1970.
    pub(crate) created: i64,
    /// `None` while the service has no URL.
    pub(crate) url: Option<Uri>,
    /// All names of the service's models, the preferred one first.
    pub(crate) models: Vec<String>,
    /// The HTTPRoutes in its status.
    pub(crate) routes: Vec<Key>,
}

/// All services, by name.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    services: Vec<PublishedService>,
}

// === impl PublishedService ===

impl PublishedService {
    pub(crate) fn new(service: &LLMInferenceService) -> Self {
        let status = service.status.clone().unwrap_or_default();
        let url = status.url.as_deref().and_then(|url| url.parse().ok());
        let gateways = status.router.iter().flat_map(|router| &router.gateways);
        let routes = gateways.flat_map(|gateway| &gateway.http_routes).map(|route| {
            let namespace = route.namespace.as_deref().map_or(Namespace::of(&service.metadata), Namespace);
            Key::new(namespace, Name(&route.name))
        });
        let routes = routes.collect();
        let mut models: Vec<String> = Vec::new();
        for model in status.addresses.into_iter().flat_map(|address| address.models) {
            if !models.contains(&model.name) {
                models.push(model.name);
            }
        }
        // Short names come first, because people type them.
        models.sort_by_key(|model| model.starts_with(PUBLISHER));
        Self {
            name: Key::of(service),
            ready: status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == ConditionStatus::True),
            stopped: annotations::is_stopped(service.metadata.annotations.as_ref()),
            created: service.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            url,
            models,
            routes,
        }
    }

    /// Returns the target of requests to the service: the host, if its URL has one, and the path before `/v1/…`.
    pub(crate) fn place(&self) -> Option<(Option<&Authority>, &str)> {
        let url = self.url.as_ref()?;
        Some((url.authority(), url.path().trim_end_matches('/')))
    }
}

// === impl Directory ===

impl Directory {
    pub(crate) fn new<'a>(services: impl IntoIterator<Item = &'a LLMInferenceService>) -> Self {
        let mut services: Vec<_> = services.into_iter().map(PublishedService::new).collect();
        services.sort_by(|a, b| a.name.cmp(&b.name));
        Self { services }
    }

    /// Returns a service for a model. Prefers a ready service if there are several.
    pub(crate) fn service(&self, model: &str) -> Option<&PublishedService> {
        let has = |service: &&PublishedService| {
            service.url.is_some() && service.models.iter().any(|name| name == model)
        };
        let mut found: Vec<_> = self.services.iter().filter(has).collect();
        found.sort_by_key(|service| !service.ready);
        found.first().copied()
    }

    /// Returns all models by the name that clients should use: the short name, and in addition the long names if several
    /// services have the same short name.
    fn models(&self) -> BTreeMap<&str, &PublishedService> {
        let mut all: BTreeMap<&str, &PublishedService> = BTreeMap::new();
        for service in self.services.iter().filter(|service| service.url.is_some()) {
            let short = service.models.iter().filter(|name| !name.starts_with(PUBLISHER));
            for name in short {
                if let Some(other) = all.insert(name, service) {
                    let long = |service: &'_ PublishedService| {
                        let end = format!("/models/{name}");
                        service
                            .models
                            .iter()
                            .position(|long| long.starts_with(PUBLISHER) && long.ends_with(&end))
                    };
                    for service in [other, service] {
                        if let Some(at) = long(service) {
                            all.insert(&service.models[at], service);
                        }
                    }
                    // With the short name, requests go to a service that is ready.
                    if let Some(first) = self.service(name) {
                        all.insert(name, first);
                    }
                }
            }
        }
        all
    }

    /// Lists the names of all models in a sentence.
    pub(crate) fn names(&self) -> String {
        let models = self.models();
        if models.is_empty() {
            return "no model is served yet".into();
        }
        let names: Vec<_> = models.keys().map(|name| format!("`{name}`")).collect();
        format!("there is {}", names.join(", "))
    }

    /// Returns the list of models in OpenAI's format.
    pub(crate) fn list(&self) -> Value {
        let data: Vec<_> = self.models().into_iter().map(|(name, service)| entry(name, service)).collect();
        json!({"object": "list", "data": data})
    }

    /// Returns one entry of the list.
    pub(crate) fn model(&self, name: &str) -> Option<Value> {
        self.service(name).map(|service| entry(name, service))
    }

    /// Returns the index of services for programs.
    pub(crate) fn index(&self) -> Value {
        let services: Vec<_> = self
            .services
            .iter()
            .map(|service| {
                json!({
                    "namespace": *service.name.namespace,
                    "name": *service.name.name,
                    "ready": service.ready,
                    "url": service.url.as_ref().map(ToString::to_string),
                    "models": service.models,
                })
            })
            .collect();
        json!({"services": services, "models": "/v1/models"})
    }

    /// Returns the index of services for people. `base` is the URL of this gateway.
    pub(crate) fn text(&self, base: &str) -> String {
        let mut lines = vec!["Longboat serves:".to_owned(), String::new()];
        for service in &self.services {
            let state = match (&service.url, service.ready) {
                (Some(url), true) => url.to_string(),
                (Some(url), false) => format!("{url} (not ready)"),
                (None, _) if service.stopped => "is stopped".into(),
                (None, _) => "has no URL yet".into(),
            };
            lines.push(format!("  {}  {state}", service.name));
            for model in service.models.iter().filter(|model| !model.starts_with(PUBLISHER)) {
                lines.push(format!("    model {model}"));
            }
        }
        if self.services.is_empty() {
            lines.push("  none yet: apply an LLMInferenceService".into());
        }
        lines.push(String::new());
        lines.push(format!(
            "All models are also served at {base}/v1, which routes each request by its field `model`."
        ));
        lines.push(String::new());
        lines.join("\n")
    }
}

fn entry(name: &str, service: &PublishedService) -> Value {
    json!({"id": name, "object": "model", "created": service.created, "owned_by": service.name.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(namespace: &str, name: &str, models: &[&str], ready: bool) -> LLMInferenceService {
        let models: Vec<_> = models.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"model": {"uri": "hf://a/b"}},
            "status": {
                "url": format!("http://127.0.0.1:8080/{namespace}/{name}"),
                "addresses": [{"url": "http://x/", "models": models}],
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_model_leads_to_its_service_and_one_that_is_ready_is_preferred() {
        let all = [
            service("ns", "a", &["publishers/ns/models/m", "m"], false),
            service("ns", "b", &["publishers/ns/models/m", "m", "adapter"], true),
        ];
        let directory = Directory::new(&all);
        assert_eq!(directory.service("m").unwrap().name.name.as_deref(), Name("b"));
        assert_eq!(directory.service("adapter").unwrap().place().unwrap().1, "/ns/b");
        assert_eq!(directory.service("other"), None);
        assert_eq!(directory.names(), "there is `adapter`, `m`, `publishers/ns/models/m`");
    }

    #[test]
    fn the_index_for_people_says_why_a_service_has_no_url() {
        let idle = |name: &str| {
            let mut idle = service("ns", name, &[], false);
            idle.status = None;
            idle
        };
        let mut stopped = idle("b");
        stopped.metadata.annotations = Some([(annotations::STOP.to_owned(), "true".to_owned())].into());
        let text = Directory::new(&[idle("a"), stopped]).text("http://g");
        assert!(text.contains("  ns/a  has no URL yet\n  ns/b  is stopped\n"), "{text}");
    }

    #[test]
    fn short_names_are_listed_and_long_ones_only_where_they_tell_services_apart() {
        let one = service("ns", "a", &["publishers/ns/models/m", "m"], true);
        let two = service("other", "b", &["publishers/other/models/m", "m"], true);
        let ids = |services: &[LLMInferenceService]| -> Vec<String> {
            let list = Directory::new(services).list();
            list["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|model| model["id"].as_str().unwrap().into())
                .collect()
        };
        assert_eq!(ids(std::slice::from_ref(&one)), ["m"]);
        assert_eq!(ids(&[one, two]), ["m", "publishers/ns/models/m", "publishers/other/models/m"]);
    }
}
