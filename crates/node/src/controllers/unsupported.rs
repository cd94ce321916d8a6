//! Kinds whose pods are not run here. An event on each object says so.

use std::time::Duration;

use futures::stream;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::CronJob;

use super::queue::{self, Key, Reconcile, key_of, triggers};
use super::setup::Setup;
use crate::cache::{Cache, CachedKind};
use crate::events::{Recorder, Severity};

struct UnsupportedKind<K: kube::Resource<DynamicType = ()> + 'static> {
    cache: Cache<K>,
    recorder: Recorder,
}

/// Watches both kinds until `cancel`.
pub(super) async fn run(Setup { client, recorder, cancel, .. }: Setup) {
    let (daemons, watch_daemons) = Cache::<DaemonSet>::new(&client, cancel.clone());
    let (crons, watch_crons) = Cache::<CronJob>::new(&client, cancel.clone());
    let daemon_changes = triggers(&daemons, |set: &DaemonSet| [key_of(set)]);
    let cron_changes = triggers(&crons, |job: &CronJob| [key_of(job)]);
    let daemons = UnsupportedKind { cache: daemons, recorder: recorder.clone() };
    let crons = UnsupportedKind { cache: crons, recorder };
    tokio::join!(
        watch_daemons,
        watch_crons,
        queue::run(daemons, stream::StreamExt::boxed(daemon_changes), cancel.clone()),
        queue::run(crons, stream::StreamExt::boxed(cron_changes), cancel),
    );
}

impl<K: CachedKind> Reconcile for UnsupportedKind<K> {
    const NAME: &'static str = "unrun";

    fn all(&self) -> Vec<Key> {
        self.cache.all().iter().map(|object| key_of(object.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        if let Some(object) = self.cache.get(&key.namespace, &key.name) {
            let message = format!(
                "kind {} does not run on this machine: use a Deployment, a StatefulSet or a Job, or run it \
                 on a cluster",
                K::kind(&())
            );
            self.recorder.publish(object.as_ref(), Severity::Warning, "NotRun", message);
        }
        Ok(None)
    }
}
