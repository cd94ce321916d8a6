//! Leader election: of several pickers, only the holder of the pool's lease is ready.

use std::sync::Arc;

use kube::Client;
use longboat_key::{Key, Name};
use longboat_lease::{Candidate, Timing};
use tokio_util::sync::CancellationToken;

use crate::core::Core;

/// Creates a candidate for the lease of a pool.
pub(crate) fn candidate(
    client: Client,
    pool: &Key,
    pod: &str,
    timing: Timing,
    core: &Arc<Core>,
) -> Candidate {
    let core = Arc::clone(core);
    let name = format!("epp-{}-{}.llm-d.ai", pool.namespace, pool.name);
    let lease = Key::new(pool.namespace.as_deref(), Name(&name));
    Candidate::new(client, lease, pod, timing, move |until| core.lead(until.is_some()))
}

/// Takes part in the election until `stop`, then releases the lease at once. A picker that loses the lease keeps running as a
/// standby.
pub(crate) async fn run(mut candidate: Candidate, stop: CancellationToken) {
    while candidate.acquire(&stop).await {
        let Some(lost) = stop.run_until_cancelled(candidate.keep()).await else { break };
        tracing::warn!(%lost, "Lost the lease; this replica is now on standby.");
    }
    candidate.release().await;
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use kube::client::Body;
    use longboat_key::Namespace;

    use super::*;
    use crate::tests::support;

    /// An API server that accepts one lease, and then never answers again.
    fn server_that_dies() -> Client {
        let mut requests = 0;
        let service = tower::service_fn(move |request: http::Request<Body>| {
            requests += 1;
            let number = requests;
            async move {
                let (status, body) = match number {
                    1 => (404, r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#),
                    2 => (
                        201,
                        r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"x"}}"#,
                    ),
                    _ => std::future::pending().await,
                };
                let _ = request;
                let response =
                    http::Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "ns")
    }

    #[tokio::test]
    async fn a_leader_that_gets_no_answer_stops_leading_before_its_lease_runs_out() {
        let core = support::core("");
        core.lead(false);
        support::with_endpoints(&core, 1);
        core.listening();
        let stop = CancellationToken::new();
        let timing = Timing {
            deadline: Duration::from_millis(300),
            retry: Duration::from_millis(50),
            ..Timing::default()
        };
        let pool = Key::new(Namespace("ns"), Name("pool"));
        let candidate = candidate(server_that_dies(), &pool, "pod", timing, &core);
        let running = tokio::spawn(run(candidate, stop.clone()));
        // A candidate that waits for the missing answer forever makes this loop endless.
        while !core.is_serving() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while core.is_serving() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        running.await.unwrap();
    }
}
