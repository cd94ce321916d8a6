//! Kinds whose pods are not run here. An event on each object says so.

use futures::stream;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::CronJob;
use longboat_key::Key;

use super::queue::{self, Again, Reconcile};
use super::setup::Setup;
use crate::cache::{Cache, CachedKind};
use crate::events::{Recorder, Severity};

struct Unsupported(Recorder);

/// Watches both kinds until `cancel`.
pub(super) async fn run(Setup { client, recorder, cancel, .. }: Setup) {
    let (daemons, watch_daemons) = Cache::<DaemonSet>::new(&client, cancel.clone());
    let (crons, watch_crons) = Cache::<CronJob>::new(&client, cancel.clone());
    tokio::join!(
        watch_daemons,
        watch_crons,
        queue::run(Unsupported(recorder.clone()), daemons, stream::empty(), cancel.clone()),
        queue::run(Unsupported(recorder), crons, stream::empty(), cancel),
    );
}

impl<K: CachedKind> Reconcile<K> for Unsupported {
    const NAME: &'static str = "unrun";

    async fn reconcile(&mut self, _: &Key, object: &K) -> Again {
        let message = format!(
            "kind {} does not run on this machine: use a Deployment, a StatefulSet or a Job, or run it on a \
             cluster",
            K::kind(&())
        );
        self.0.publish(object, Severity::Warning, "NotRun", message);
        Ok(None)
    }
}
