//! Random edits of services, as users make them.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{
    api::{Answer, Api},
    shapes::Shape,
    snapshot::children,
};

/// The names of a slot's services. The second service joins the routing group of the first, if the first has one.
pub(crate) const NAMES: [&str; 2] = ["llm", "llm-canary"];
const STOP: &str = "serving.kserve.io/stop";

/// Edits, creates and deletes services in slots. Each slot is a namespace.
pub(crate) struct Editor<'a> {
    api: &'a Api,
    random: StdRng,
    slots: Vec<String>,
    /// The services of all shapes.
    services: Vec<Value>,
    /// How often each kind of edit was done, and how often refused.
    done: BTreeMap<String, u64>,
}

// === impl Editor ===

impl<'a> Editor<'a> {
    pub(crate) fn new(api: &'a Api, seed: u64, slots: Vec<String>, shapes: &[Shape]) -> Self {
        let objects = shapes.iter().flat_map(|(_, objects)| objects);
        let services = objects.filter(|object| object["kind"] == "LLMInferenceService").cloned().collect();
        Self { api, random: StdRng::seed_from_u64(seed), slots, services, done: BTreeMap::new() }
    }

    /// Makes one random edit of one random service.
    pub(crate) fn step(&mut self) {
        let slot = self.slots.choose(&mut self.random).unwrap().clone();
        let name = if self.random.random_ratio(1, 6) { NAMES[1] } else { NAMES[0] };
        let path = format!("{}/{name}", services(&slot));
        let live = self.api.get(&path);
        if live.status == 404 {
            return self.create(&slot, name);
        }
        let live = live.ok();
        match self.random.random_range(0..100) {
            0..40 => self.reshape(&path, live, name),
            40..55 => {
                let replicas = self.random.random_range(0..5);
                self.merge("replicas", &path, &json!({"spec": {"replicas": replicas}}));
            }
            55..65 => {
                let note = self.random.random_range(0..1000).to_string();
                let change = json!({"metadata": {"labels": {"note": note}, "annotations": {"example.com/note": note}}});
                self.merge("labels", &path, &change);
            }
            65..72 => {
                let stops = live["metadata"]["annotations"][STOP] != "true";
                let stop = if stops { json!("true") } else { Value::Null };
                self.merge("stop", &path, &json!({"metadata": {"annotations": {STOP: stop}}}));
            }
            72..80 => {
                let uses = live["spec"]["baseRefs"].as_array().is_none_or(Vec::is_empty);
                let refs = if uses { json!([{"name": "base"}]) } else { Value::Null };
                self.merge("base", &path, &json!({"spec": {"baseRefs": refs}}));
            }
            80..86 => self.change_config(&slot),
            86..90 => self.lose_a_child(&slot),
            90..93 => self.tamper(&slot, name),
            _ => {
                let answer = self.api.delete(&path);
                self.note("delete", &answer);
            }
        }
    }

    /// Creates a service in every slot.
    pub(crate) fn fill(&mut self) {
        for slot in self.slots.clone() {
            self.change_config(&slot);
            self.create(&slot, NAMES[0]);
        }
    }

    /// Creates each config again that is deleted or being deleted, after it has removed the references to the config.
    pub(crate) fn tidy(&mut self, gone: impl Fn(&str)) {
        for slot in self.slots.clone() {
            let path = format!("{}/base", configs(&slot));
            let config = self.api.get(&path);
            if config.status == 200 && config.body["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            for name in NAMES {
                let service = format!("{}/{name}", services(&slot));
                self.merge("base", &service, &json!({"spec": {"baseRefs": null}}));
            }
            gone(&path);
            self.api.post(&configs(&slot), &config_of(1)).ok();
        }
    }

    /// How often each kind of edit was done.
    pub(crate) fn done(&self) -> &BTreeMap<String, u64> {
        &self.done
    }

    fn create(&mut self, slot: &str, name: &str) {
        let Some(mut object) = self.shape(name) else { return };
        object["metadata"]["name"] = name.into();
        let answer = self.api.post(&services(slot), &object);
        self.note("create", &answer);
    }

    fn reshape(&mut self, path: &str, mut live: Value, name: &str) {
        let Some(shape) = self.shape(name) else { return };
        live["spec"] = shape["spec"].clone();
        live["metadata"]["annotations"] = shape["metadata"]["annotations"].clone();
        let answer = self.api.put(path, &live);
        self.note("reshape", &answer);
    }

    /// Returns a random shape for a service of this name.
    fn shape(&mut self, name: &str) -> Option<Value> {
        let fitting: Vec<&Value> =
            self.services.iter().filter(|service| service["metadata"]["name"] == name).collect();
        fitting.choose(&mut self.random).map(|shape| (*shape).clone())
    }

    /// Creates, changes or deletes the config of a slot. A deleted config stays while a service uses it.
    fn change_config(&mut self, slot: &str) {
        let path = format!("{}/base", configs(slot));
        let replicas = self.random.random_range(1..4);
        if self.api.get(&path).status == 404 {
            let answer = self.api.post(&configs(slot), &config_of(replicas));
            return self.note("config", &answer);
        }
        if self.random.random_ratio(1, 4) {
            let answer = self.api.delete(&path);
            return self.note("delete a config", &answer);
        }
        self.merge("config", &path, &config_of(replicas));
    }

    fn lose_a_child(&mut self, slot: &str) {
        if let Some(child) = children(self.api, slot).choose(&mut self.random) {
            let answer = self.api.delete(child);
            self.note("delete a child", &answer);
        }
    }

    fn tamper(&mut self, slot: &str, name: &str) {
        let path = format!("/apis/apps/v1/namespaces/{slot}/deployments/{name}-kserve");
        let change = json!([
            {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.com/tampered"},
        ]);
        let answer = self.api.patch(&path, &change);
        self.note("tamper", &answer);
    }

    fn merge(&mut self, what: &str, path: &str, change: &Value) {
        let answer = self.api.merge(path, change);
        self.note(what, &answer);
    }

    /// Counts an edit. Refusals are expected: by admission, by conflict, or because the object is gone. A webhook may also
    /// fail, because it needs responses of the API server itself.
    fn note(&mut self, what: &str, answer: &Answer) {
        let refused = match answer.status {
            ..300 => "",
            400 | 403 | 404 | 409 | 422 => " (refused)",
            500 if answer.message().contains("failed calling webhook") => " (not judged)",
            status => panic!("{what}: {status}: {:#}", answer.body),
        };
        *self.done.entry(format!("{what}{refused}")).or_default() += 1;
    }
}

pub(crate) fn services(namespace: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices")
}

pub(crate) fn configs(namespace: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceserviceconfigs")
}

fn config_of(replicas: u64) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "base"}, "spec": {"labels": {"team": format!("team-{replicas}")}},
    })
}
