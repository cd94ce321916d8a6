//! The `clientConfig` of webhook configurations and CRDs, and the patch that puts the CA bundle into it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_admission::Hook;
use longboat_api::names::CONVERSION_WEBHOOK_PATH;
use serde::Deserialize;
use serde_json::{Value, json};

/// Annotations that make cert-manager write the CA bundle. We then leave it alone: two writers would overwrite each other
/// forever.
const INJECTED: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// The fields of a webhook configuration or CRD that are needed. A CRD's schemas are megabytes and are skipped.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CaBundleTarget {
    metadata: ObjectMeta,
    #[serde(default)]
    webhooks: Vec<Value>,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    conversion: Value,
}

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaBundleChange {
    /// Nothing: its bundle is current, or it calls none of our webhooks.
    None,
    /// Nothing: this annotation asks another writer to do it.
    Foreign(&'static str),
    /// A JSON patch.
    Patch(Value),
}

// === impl CaBundleTarget ===

impl CaBundleTarget {
    /// Returns the change after which the object has `bundle` (base64 of PEM). The address in the object stays as it is.
    pub(super) fn change(&self, bundle: &str) -> CaBundleChange {
        let mut patch = Vec::new();
        for (index, webhook) in self.webhooks.iter().enumerate() {
            let client = &webhook["clientConfig"];
            if Hook::at(&path(client)).is_some() && client["caBundle"] != bundle {
                // The test fails the patch if the list has changed since it was read.
                let name = format!("/webhooks/{index}/name");
                patch.push(json!({"op": "test", "path": name, "value": webhook["name"]}));
                let field = format!("/webhooks/{index}/clientConfig/caBundle");
                patch.push(json!({"op": "add", "path": field, "value": bundle}));
            }
        }
        let client = &self.spec.conversion["webhook"]["clientConfig"];
        if path(client) == CONVERSION_WEBHOOK_PATH && client["caBundle"] != bundle {
            let field = "/spec/conversion/webhook/clientConfig/caBundle";
            patch.push(json!({"op": "add", "path": field, "value": bundle}));
        }
        if patch.is_empty() {
            return CaBundleChange::None;
        }
        let annotations = self.metadata.annotations.as_ref();
        match INJECTED.into_iter().find(|key| annotations.is_some_and(|all| all.contains_key(*key))) {
            Some(annotation) => CaBundleChange::Foreign(annotation),
            None => CaBundleChange::Patch(Value::Array(patch)),
        }
    }
}

/// The path that a `clientConfig` calls, from a Service reference or a URL.
fn path(client: &Value) -> String {
    let path = match (client.get("service"), client["url"].as_str()) {
        (Some(service), _) if service.is_object() => service["path"].as_str(),
        (_, Some(url)) => {
            let rest = url.strip_prefix("https://").unwrap_or_default();
            rest.find('/').map(|start| &rest[start..])
        }
        _ => None,
    };
    format!("/{}", path.unwrap_or_default().trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use longboat_api::crd::{self, WebhookTarget};
    use longboat_key::Namespace;

    use super::*;
    use crate::webhook::configurations;

    fn read(value: impl serde::Serialize) -> CaBundleTarget {
        serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap()
    }

    fn targets() -> [WebhookTarget; 2] {
        [
            WebhookTarget::Service { namespace: Namespace("kserve").to_shared() },
            WebhookTarget::Url { base: "https://127.0.0.1:9443".to_owned() },
        ]
    }

    #[test]
    fn every_webhook_of_ours_gets_the_bundle_once() {
        for target in targets() {
            let configuration = configurations(&target).mutating;
            let CaBundleChange::Patch(patch) = read(&configuration).change("QQ==") else {
                panic!("nothing to patch")
            };
            let mut patched = serde_json::to_value(&configuration).unwrap();
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut patched, &patch).unwrap();
            let bundles: Vec<_> =
                (0..2).map(|i| &patched["webhooks"][i]["clientConfig"]["caBundle"]).collect();
            assert_eq!(bundles, ["QQ==", "QQ=="]);
            assert_eq!(read(&patched).change("QQ=="), CaBundleChange::None);
            assert_ne!(read(&patched).change("Qg=="), CaBundleChange::None);
        }
    }

    #[test]
    fn a_conversion_stanza_gets_the_bundle_and_keeps_where_it_points_to() {
        let mut shipped = crd::own_for(&WebhookTarget::default()).swap_remove(0);
        let by_address = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://[::1]:9443/convert"}}});
        for stanza in [shipped["spec"]["conversion"].take(), by_address] {
            let mut crd = json!({"metadata": {"name": "a"}, "spec": {"conversion": stanza}});
            let pointed = crd.clone();
            let CaBundleChange::Patch(patch) = read(&crd).change("QQ==") else { panic!("nothing to patch") };
            json_patch::patch(&mut crd, &serde_json::from_value::<json_patch::Patch>(patch).unwrap())
                .unwrap();
            assert_eq!(read(&crd).change("QQ=="), CaBundleChange::None);
            crd["spec"]["conversion"]["webhook"]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
            assert_eq!(crd, pointed);
        }
    }

    #[test]
    fn what_calls_others_is_left_alone() {
        let none = json!({"metadata": {"name": "a"}, "spec": {"conversion": {"strategy": "None"}}});
        assert_eq!(read(none).change("QQ=="), CaBundleChange::None);
        let mut other = serde_json::to_value(configurations(&targets()[1]).mutating).unwrap();
        for webhook in other["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["url"] = json!("https://policies.example/validate");
        }
        assert_eq!(read(other).change("QQ=="), CaBundleChange::None);
    }

    #[test]
    fn what_cert_manager_writes_is_left_to_it() {
        let mut configuration = configurations(&targets()[0]).mutating;
        let annotations = [("cert-manager.io/inject-ca-from".to_owned(), "kserve/cert".to_owned())];
        configuration.metadata.annotations = Some(annotations.into());
        assert_eq!(
            read(configuration).change("QQ=="),
            CaBundleChange::Foreign("cert-manager.io/inject-ca-from")
        );
    }
}
