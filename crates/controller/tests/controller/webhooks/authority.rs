//! Certificates: our own CA, which is shared, renewed and written for API servers; and certificates from others.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Namespace};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::ObjectMeta,
};
use longboat_controller::webhook::{Clock, Settings, WebhookTarget};
use longboat_testkit::{Faults, TestCluster, faulty};
use longboat_tls::{CertificateAuthority, LeafRequest, certificates};
use parking_lot::Mutex;
use serde_json::json;

use super::{
    CONFIGURATION, MUTATE, Replica, bundle, client, convert_by, install, review, secrets, short, stanza,
    trusted, world,
};
use crate::setup::{QUIET, service};

const SECRET: &str = "llmisvc-webhook-ca";
const DAY: Duration = Duration::from_hours(24);

/// Whether a replica responds to a client that trusts `bundle`.
async fn answers(replica: &Replica, bundle: &str) -> bool {
    let review = review(&service("llm", json!({})));
    client(bundle)
        .post(replica.url(MUTATE))
        .json(&review)
        .send()
        .await
        .is_ok_and(|answer| answer.status() == 200)
}

fn text(data: &std::collections::BTreeMap<String, k8s_openapi::ByteString>, key: &str) -> String {
    String::from_utf8(data[key].0.clone()).unwrap()
}

#[tokio::test]
async fn a_configuration_is_told_whom_to_trust_as_often_as_it_appears_and_then_left_alone() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    let first = trusted(&world).await;
    world.settle(QUIET).await;

    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client());
    api.delete(CONFIGURATION, &DeleteParams::default()).await.unwrap();
    install(&world, &replica).await;
    assert_eq!(trusted(&world).await, first);

    let foreign = json!([{"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": "QQ=="}]);
    let patch: json_patch::Patch = serde_json::from_value(foreign).unwrap();
    api.patch(CONFIGURATION, &PatchParams::default(), &Patch::Json::<()>(patch)).await.unwrap();
    world
        .eventually("the bundle is put back", async || {
            let webhooks = api.get(CONFIGURATION).await.unwrap().webhooks.unwrap();
            webhooks
                .iter()
                .all(|w| w.client_config.ca_bundle.as_ref().is_some_and(|b| b.0 == first.as_bytes()))
        })
        .await;
    world.apply(service("llm", json!({}))).await;
}

#[tokio::test]
async fn a_crd_that_converts_by_us_trusts_us() {
    let world = world().await;
    let replica = Replica::start(&world).await;
    replica.ready(&world).await;
    let name = "llminferenceserviceconfigs.serving.kserve.io";
    convert_by(&world, &replica, name).await;
    let stored = world
        .eventually("the stanza trusts us", async || {
            let client = stanza(&world, name).await;
            client["caBundle"].is_string().then_some(client)
        })
        .await;
    assert_eq!(stored["url"], format!("https://{}/convert", replica.webhooks));
    replica.ready(&world).await;
}

#[tokio::test]
async fn replicas_share_one_ca_and_each_is_trusted_by_it() {
    let world = TestCluster::empty().await;
    let (one, two) = tokio::join!(Replica::start(&world), Replica::start(&world));
    install(&world, &one).await;
    one.ready(&world).await;
    two.ready(&world).await;
    world.settle(QUIET).await;
    let bundle = trusted(&world).await;
    assert_eq!(certificates(&bundle).unwrap().len(), 1);
    let data = secrets(&world).get(SECRET).await.unwrap().data.unwrap();
    assert_eq!(text(&data, "ca.crt"), bundle);
    assert!(answers(&one, &bundle).await);
    assert!(answers(&two, &bundle).await);
    // A later replica uses the CA of the others.
    one.stop().await;
    two.stop().await;
    let three = Replica::start(&world).await;
    three.ready(&world).await;
    assert!(answers(&three, &bundle).await);
    assert_eq!(secrets(&world).get(SECRET).await.unwrap().data.unwrap(), data);
}

#[tokio::test]
async fn a_secret_that_was_deleted_is_put_back_and_one_that_was_damaged_is_replaced() {
    let world = TestCluster::empty().await;
    let replica = Replica::called(&world).await;
    let before = secrets(&world).get(SECRET).await.unwrap();
    assert_eq!(before.type_.as_deref(), Some("kubernetes.io/tls"));
    secrets(&world).delete(SECRET, &DeleteParams::default()).await.unwrap();
    let after =
        world.eventually("the Secret is back", async || secrets(&world).get_opt(SECRET).await.unwrap()).await;
    assert_eq!(after.data, before.data);

    let patch = json!({"data": {"tls.key": "QQ=="}});
    secrets(&world).patch(SECRET, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world
        .eventually("the key is back", async || {
            let now = secrets(&world).get(SECRET).await.unwrap();
            now.data == before.data
        })
        .await;
    assert!(answers(&replica, &trusted(&world).await).await);
}

/// A clock that tests can set. It starts in the past, so that its certificates are also valid by the clocks of clients.
fn clock(behind: Duration) -> (Clock, Arc<Mutex<Duration>>) {
    let behind = Arc::new(Mutex::new(behind));
    let shared = behind.clone();
    (Arc::new(move || SystemTime::now() - *shared.lock()), behind)
}

/// Makes every keeper read its clock.
async fn nudge(world: &TestCluster, what: &str) {
    let patch = json!({"metadata": {"labels": {"nudged": what}}});
    secrets(world).patch(SECRET, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn a_ca_is_renewed_before_it_expires_and_no_client_is_locked_out() {
    let world = world().await;
    // The clock is nine and a half years behind. By real time, a CA of that date has half a year left, and its successor is
    // due.
    let (clock, behind) = clock(DAY * 3470);
    let replica = Replica::with(&world, Settings::default(), Some(clock)).await;
    install(&world, &replica).await;
    let old = trusted(&world).await;
    assert!(!answers(&replica, &old).await, "the certificate of that day has expired");

    *behind.lock() = DAY * 2;
    nudge(&world, "announce").await;
    let both = world
        .eventually("the successor is announced", async || {
            bundle(&world).await.filter(|now| certificates(now).unwrap().len() == 2)
        })
        .await;
    assert!(both.ends_with(&old), "the newest comes first");
    let successor = both.strip_suffix(&old).unwrap();
    // The old CA still signs, and issues a new certificate.
    world.eventually("a new certificate", async || answers(&replica, &old).await).await;
    assert!(!answers(&replica, successor).await);

    *behind.lock() = Duration::ZERO;
    nudge(&world, "sign").await;
    world.eventually("the successor signs", async || answers(&replica, successor).await).await;
    assert_eq!(bundle(&world).await.unwrap(), both, "the old one is trusted until it expires");
    world.apply(service("llm", json!({}))).await;
}

#[tokio::test]
async fn without_a_namespace_for_the_secret_it_serves_and_keeps_the_ca_as_soon_as_there_is_one() {
    let world = world().await;
    let namespaces: Api<Namespace> = Api::all(world.client());
    let _ = namespaces.delete("kserve", &DeleteParams::default()).await.unwrap();
    world
        .eventually("the namespace is gone", async || namespaces.get_opt("kserve").await.unwrap().is_none())
        .await;
    let replica = Replica::called(&world).await;
    let bundle = trusted(&world).await;
    world.apply(service("llm", json!({}))).await;
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("kserve".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    world.apply(serde_json::to_value(namespace).unwrap()).await;
    let kept =
        world.eventually("the CA is kept", async || secrets(&world).get_opt(SECRET).await.unwrap()).await;
    assert_eq!(text(&kept.data.unwrap(), "ca.crt"), bundle);
    assert!(answers(&replica, &bundle).await);
}

#[tokio::test]
async fn without_the_right_to_the_secret_it_serves_and_keeps_the_ca_as_soon_as_it_may() {
    let world = world().await;
    let faults = Faults::default();
    faults.forbid(Some("/api/v1/namespaces/kserve/secrets"));
    let replica = Replica::by(faulty(&world.server, &faults), Settings::default(), None).await;
    install(&world, &replica).await;
    replica.ready(&world).await;
    let bundle = trusted(&world).await;
    world.apply(service("llm", json!({}))).await;
    assert_eq!(secrets(&world).get_opt(SECRET).await.unwrap(), None);
    faults.forbid(None);
    let kept =
        world.eventually("the CA is kept", async || secrets(&world).get_opt(SECRET).await.unwrap()).await;
    assert_eq!(text(&kept.data.unwrap(), "ca.crt"), bundle, "whoever trusts it goes on trusting it");
    assert!(answers(&replica, &bundle).await);
}

#[tokio::test]
async fn what_cert_manager_writes_is_left_alone_and_said() {
    let world = TestCluster::empty().await;
    let replica = Replica::start(&world).await;
    replica.ready(&world).await;
    let base = format!("https://{}", replica.webhooks);
    let mut configuration =
        longboat_controller::webhook::configurations(&WebhookTarget::Url { base }).mutating;
    let annotation = ("cert-manager.io/inject-ca-from".to_owned(), "kserve/llmisvc-serving-cert".to_owned());
    configuration.metadata.annotations = Some([annotation].into());
    world.apply(serde_json::to_value(configuration).unwrap()).await;
    let report = world
        .eventually("it says so", async || {
            let (status, text) = replica.probe("/readyz").await;
            (status == 503).then_some(text)
        })
        .await;
    assert!(report.contains("written by cert-manager"), "{report}");
    assert_eq!(bundle(&world).await, None);
}

#[tokio::test]
async fn a_mounted_certificate_is_served_reloaded_and_nobody_is_told_to_trust_it() {
    let world = TestCluster::empty().await;
    longboat_tls::install_default_provider();
    let mount = tempfile::tempdir().unwrap();
    // The kubelet mounts a Secret like this: the files are links into a folder to which another link points.
    let write = |version: &str| {
        let ca = CertificateAuthority::new(version).unwrap();
        let request = LeafRequest { ips: vec![[127, 0, 0, 1].into()], days: 1, ..LeafRequest::default() };
        let pair = ca.issue(&request).unwrap();
        let folder = mount.path().join(version);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), pair.certificate_pem).unwrap();
        std::fs::write(folder.join("tls.key"), pair.key_pem).unwrap();
        let swapped = mount.path().join("..tmp");
        std::os::unix::fs::symlink(version, &swapped).unwrap();
        std::fs::rename(swapped, mount.path().join("..data")).unwrap();
        ca.pem()
    };
    let first = write("first");
    for file in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), mount.path().join(file)).unwrap();
    }
    let settings = Settings {
        webhook_cert_dir: Some(mount.path().to_owned()),
        limits: longboat_controller::webhook::Limits { reload: Duration::from_millis(50), ..short() },
        ..Settings::default()
    };
    let replica = Replica::with(&world, settings, None).await;
    install(&world, &replica).await;
    replica.ready(&world).await;
    assert!(answers(&replica, &first).await);
    let second = write("second");
    world.eventually("the new certificate", async || answers(&replica, &second).await).await;
    assert_eq!(bundle(&world).await, None);
    assert!(secrets(&world).get_opt(SECRET).await.unwrap().is_none());
}
