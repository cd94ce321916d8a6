//! Several replicas: one reconciles at a time, and another takes over.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use longboat_controller::{
    Args, Election, Error, IgnoredFlags, Listen, Process, ProcessArgs, webhook::Settings,
};
use longboat_testkit::{Faults, TestCluster, faulty};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::setup::{QUIET, deployments, service, world};

const LEASE: &str = "llminferenceservice-kserve-controller-manager";
const LEASES: &str = "/apis/coordination.k8s.io";

/// Short enough for a test, and valid.
const FAST: Election = Election {
    enabled: true,
    lease: Duration::from_secs(2),
    deadline: Duration::from_millis(1500),
    retry: Duration::from_millis(200),
};
/// So long that no replica takes over because a lease expired.
const SLOW: Election = Election {
    enabled: true,
    lease: Duration::from_hours(2),
    deadline: Duration::from_hours(1),
    retry: Duration::from_mins(30),
};

struct Replica {
    faults: Faults,
    probes: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Replica {
    async fn start(world: &TestCluster, election: Election) -> Self {
        longboat_tls::install_default_provider();
        let args = ProcessArgs {
            kubeconfig: None,
            controller: Args::default(),
            election,
            webhook: Settings {
                webhook_host: Some([127, 0, 0, 1].into()),
                webhook_port: 0,
                ..Settings::default()
            },
            health: Listen::At("127.0.0.1:0".to_owned()),
            metrics: longboat_controller::MetricsSettings::default(),
            logs: longboat_telemetry::zap::Zap::default(),
            traces: longboat_telemetry::traces::Otlp::default(),
            ignored_flags: IgnoredFlags::default(),
        };
        let process = Process::bind(args).await.unwrap();
        let (faults, stop) = (Faults::default(), CancellationToken::new());
        let (client, ends) = (faulty(&world.server, &faults), stop.clone());
        let probes = process.health_address().unwrap();
        Self { faults, probes, stop, task: tokio::spawn(process.run(client, ends)) }
    }

    async fn ready(&self, world: &TestCluster) {
        world
            .eventually("the replica is ready", async || {
                let answer = reqwest::get(format!("http://{}/readyz", self.probes)).await.ok()?;
                answer.status().is_success().then_some(())
            })
            .await;
    }

    /// The writes of this replica that only a leader makes. All replicas maintain the CA of the webhooks and try to take the
    /// lease.
    fn writes(&self) -> Vec<String> {
        let log = self.faults.log();
        let paths = log.into_iter().map(|write| write.path);
        paths
            .filter(|path| {
                !path.starts_with(LEASES)
                    && !path.contains("/secrets")
                    && !path.contains("/customresourcedefinitions")
            })
            .collect()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn leases(world: &TestCluster) -> Api<Lease> {
    Api::namespaced(world.client(), "kserve")
}

async fn lease(world: &TestCluster) -> LeaseSpec {
    leases(world).get(LEASE).await.unwrap().spec.unwrap()
}

/// Waits for a leader other than `but`, and returns its name.
async fn leader(world: &TestCluster, but: &str) -> String {
    let api = leases(world);
    world
        .eventually("a leader", async || {
            let holder = api.get_opt(LEASE).await.unwrap()?.spec?.holder_identity?;
            (!holder.is_empty() && holder != but).then_some(holder)
        })
        .await
}

async fn served(world: &TestCluster, name: &str) {
    let (api, child) = (deployments(world.client()), format!("{name}-kserve"));
    world.eventually("the Deployment", async || api.get_opt(&child).await.unwrap()).await;
}

#[tokio::test]
async fn the_next_replica_takes_over_as_soon_as_the_leader_is_asked_to_stop() {
    let world = world().await;
    let first = Replica::start(&world, SLOW).await;
    let leading = leader(&world, "").await;
    let second = Replica::start(&world, SLOW).await;
    second.ready(&world).await;
    world.apply(service("one", json!({}))).await;
    served(&world, "one").await;
    world.settle(QUIET).await;
    assert_eq!(second.writes(), Vec::<String>::new(), "only the leader writes");
    assert!(!first.writes().is_empty());

    // Neither the expiry of the lease nor the next attempt would occur during this test.
    let written = first.faults.clone();
    first.stop().await;
    let after = written.writes();
    assert_ne!(leader(&world, &leading).await, leading);
    world.apply(service("two", json!({}))).await;
    served(&world, "two").await;
    world.settle(QUIET).await;
    let spec = lease(&world).await;
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(1), Some(7200)));
    assert!(
        second.writes().iter().all(|path| !path.ends_with("/one-kserve")),
        "what was settled stays: {:#?}",
        second.writes()
    );
    assert_eq!(written.writes(), after, "who has stopped writes nothing");
    second.stop().await;
    assert_eq!(lease(&world).await.holder_identity.as_deref(), Some(""));
}

#[tokio::test]
async fn a_leader_that_falls_silent_is_succeeded_when_its_lease_has_run_out() {
    let world = world().await;
    let first = Replica::start(&world, FAST).await;
    let leading = leader(&world, "").await;
    let second = Replica::start(&world, FAST).await;
    second.ready(&world).await;
    first.task.abort();
    let before = lease(&world).await;
    leader(&world, &leading).await;
    let after = lease(&world).await;
    let renewed = |spec: &LeaseSpec| spec.renew_time.clone().unwrap().0;
    assert!(
        renewed(&after).duration_since(renewed(&before)).as_secs() >= 2,
        "taken too early: {before:?} {after:?}"
    );
    world.apply(service("llm", json!({}))).await;
    served(&world, "llm").await;
    second.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_its_lease_stops_writing_and_ends_with_an_error() {
    let world = world().await;
    let replica = Replica::start(&world, FAST).await;
    leader(&world, "").await;
    world.apply(service("one", json!({}))).await;
    served(&world, "one").await;
    replica.faults.forbid(Some(LEASES));
    let error = replica.task.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
    let written = replica.faults.writes();
    world.apply(service("two", json!({}))).await;
    world.settle(QUIET).await;
    assert_eq!(replica.faults.writes(), written);
}

#[tokio::test]
async fn a_leader_whose_lease_somebody_else_has_taken_ends_at_once() {
    let world = world().await;
    let replica = Replica::start(&world, FAST).await;
    leader(&world, "").await;
    let api = leases(&world);
    loop {
        let mut taken = api.get(LEASE).await.unwrap();
        taken.spec.as_mut().unwrap().holder_identity = Some("other".into());
        if api.replace(LEASE, &PostParams::default(), &taken).await.is_ok() {
            break;
        }
    }
    let error = replica.task.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("other holds it"), "{error}");
    assert_eq!(lease(&world).await.holder_identity.as_deref(), Some("other"));
}

#[tokio::test]
async fn the_lease_of_the_reference_is_respected_until_it_gives_it_back() {
    let world = world().await;
    let foreign = |holder: &str, seconds: i32| LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
        // The clock of the holder is decades behind, which must not matter.
        renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
        lease_transitions: Some(7),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
    let held = Lease { metadata, spec: Some(foreign("manager_1", 3600)) };
    let mut held = leases(&world).create(&PostParams::default(), &held).await.unwrap();
    let replica = Replica::start(&world, FAST).await;
    replica.ready(&world).await;
    world.apply(service("llm", json!({}))).await;
    world.settle(QUIET).await;
    assert_eq!(replica.writes(), Vec::<String>::new());
    assert_eq!(lease(&world).await, foreign("manager_1", 3600));

    held.spec = Some(foreign("", 1));
    leases(&world).replace(LEASE, &PostParams::default(), &held).await.unwrap();
    served(&world, "llm").await;
    let spec = lease(&world).await;
    assert_eq!(spec.lease_transitions, Some(8));
    replica.stop().await;
}
