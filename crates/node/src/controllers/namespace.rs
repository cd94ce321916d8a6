//! The objects that every namespace has: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use longboat_key::{Key, Name};
use longboat_watch::{Selection, text_of_watch};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::queue::{self, Again, Reconcile, Trigger};
use super::setup::Caches;
use super::writes::{merge, tolerate};

const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                                   endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                                   guaranteed across distributions of Kubernetes clusters.";

struct Defaults {
    client: Client,
    ca_pem: Option<String>,
}

pub(super) async fn run(client: Client, caches: Caches, ca_pem: Option<String>, cancel: CancellationToken) {
    // The watches select these two names, and only fetch metadata.
    let accounts = of_name(&client, Selection::of::<ServiceAccount>(), "default");
    let bundles = of_name(&client, Selection::of::<ConfigMap>(), ROOT_CA);
    let defaults = Defaults { client, ca_pem };
    Box::pin(queue::run(defaults, caches.namespaces, stream::select(accounts, bundles), cancel)).await;
}

/// Watches the objects of this name. Returns triggers for their namespaces.
fn of_name(client: &Client, all: Selection, name: &str) -> impl Stream<Item = Trigger> + Send + use<> {
    let named = all.fields(format!("metadata.name={name}")).metadata_only();
    longboat_watch::events(client, &named).filter_map(|event| async {
        match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::Delete(object)) => {
                let name = object.metadata.namespace.unwrap_or_default();
                Some(Trigger::One(Key::new(longboat_key::Namespace(""), Name(&name))))
            }
            Ok(watcher::Event::InitDone) => Some(Trigger::All),
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => None,
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "The watch is interrupted.");
                None
            }
        }
    })
}

impl Reconcile<Namespace> for Defaults {
    const NAME: &'static str = "namespace-defaults";

    async fn reconcile(&mut self, key: &Key, _: &Namespace) -> Again {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &key.name);
        if accounts.get_opt("default").await?.is_none() {
            let account = ServiceAccount {
                metadata: ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() },
                ..ServiceAccount::default()
            };
            tolerate(accounts.create(&PostParams::default(), &account).await, &[409])?;
        }
        let Some(pem) = &self.ca_pem else { return Ok(None) };
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.name);
        match maps.get_opt(ROOT_CA).await? {
            None => {
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(ROOT_CA.to_owned()),
                        annotations: Some(
                            [("kubernetes.io/description".to_owned(), ROOT_CA_DESCRIPTION.to_owned())].into(),
                        ),
                        ..ObjectMeta::default()
                    },
                    data: Some([("ca.crt".to_owned(), pem.clone())].into()),
                    ..ConfigMap::default()
                };
                tolerate(maps.create(&PostParams::default(), &map).await, &[409])?;
            }
            Some(map) if map.data.as_ref().and_then(|data| data.get("ca.crt")) != Some(pem) => {
                merge(&maps, ROOT_CA, json!({"data": {"ca.crt": pem}})).await?;
            }
            Some(_) => {}
        }
        Ok(None)
    }
}
