//! The objects that already exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use k8s_openapi::{
    api::core::v1::{Namespace, Service, ServiceAccount},
    serde::de::DeserializeOwned,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use longboat_api::{
    child_name,
    foreign::{
        gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute, inferencepool::InferencePool,
    },
    names::suffix,
};
use longboat_manifest::Document;

use crate::DEFAULT_NAMESPACE;

/// Objects by kind, namespace and name.
#[derive(Debug, Default)]
pub(super) struct ObjectInventory {
    objects: BTreeSet<(String, String, String)>,
    /// The controller of each GatewayClass.
    classes: BTreeMap<String, String>,
}

// === impl ObjectInventory ===

impl ObjectInventory {
    /// Reads the existing objects of the cluster.
    pub(super) async fn read(client: &Client) -> Result<Self, kube::Error> {
        let mut held = Self::default();
        held.list::<Namespace>(client).await?;
        held.list::<Service>(client).await?;
        held.list::<ServiceAccount>(client).await?;
        held.list::<Gateway>(client).await?;
        held.list::<HTTPRoute>(client).await?;
        held.list::<InferencePool>(client).await?;
        for class in Api::<GatewayClass>::all(client.clone()).list(&ListParams::default()).await? {
            held.classes.insert(class.name_any(), class.spec.controller_name.clone());
        }
        Ok(held)
    }

    async fn list<K>(&mut self, client: &Client) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        for object in Api::<K>::all(client.clone()).list(&ListParams::default()).await? {
            self.add(&K::kind(&()), &object.namespace().unwrap_or_default(), &object.name_any());
        }
        Ok(())
    }

    /// Adds the objects in manifests, and the objects that the controller will create for their services.
    pub(super) fn add_documents(&mut self, documents: &[Document]) {
        for document in documents {
            let (kind, name) = (document.text("/kind"), document.text("/metadata/name"));
            let namespace = namespace_of(document);
            match kind {
                "GatewayClass" => {
                    let controller = document.text("/spec/controllerName");
                    self.classes.insert(name.to_owned(), controller.to_owned());
                }
                "Namespace" => self.add(kind, "", name),
                _ => self.add(kind, namespace, name),
            }
            if kind == "LLMInferenceService" {
                for suffix in [suffix::WORKLOAD_SERVICE, suffix::EPP_SERVICE] {
                    self.add("Service", namespace, &child_name(name, suffix));
                }
                self.add("InferencePool", namespace, &child_name(name, suffix::INFERENCE_POOL));
                self.add("HTTPRoute", namespace, &child_name(name, suffix::ROUTE));
            }
        }
    }

    pub(super) fn add(&mut self, kind: &str, namespace: &str, name: &str) {
        self.objects.insert((kind.to_owned(), namespace.to_owned(), name.to_owned()));
    }

    /// Whether such an object exists. A Namespace has an empty namespace.
    pub(super) fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.objects.contains(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn add_class(&mut self, name: &str, controller: &str) {
        self.classes.insert(name.to_owned(), controller.to_owned());
    }

    /// Returns the controller of a class, if the class exists.
    pub(super) fn class(&self, name: &str) -> Option<&str> {
        self.classes.get(name).map(String::as_str)
    }
}

/// Returns the namespace of an object. That of a cluster-scoped kind means nothing: nobody asks for it.
pub(super) fn namespace_of(document: &Document) -> &str {
    match document.text("/metadata/namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}
