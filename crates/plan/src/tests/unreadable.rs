//! An object that exists and cannot be decoded does not count as absent.

use longboat_key::{Key, Name, Namespace};
use longboat_store::{Cache, Layout};

use super::{
    composing,
    laws::{NAMESPACE, plain, settled},
};
use crate::{Kind, PlanError, types::Deployment};

#[test]
fn nothing_is_planned_while_a_child_cannot_be_read() {
    let world = settled(plain());
    let service = world.services.values().next().unwrap();
    let spec = composing::compose(&world, service).spec.unwrap();
    assert!(crate::children(service, &spec, &world.snapshot).is_ok());
    let name = "llm-kserve";
    let cache: Cache<Deployment, ()> = Cache::new(Layout {
        is_compressed: |_| false,
        is_typical: |_| false,
        summary: |_| None,
        from_metadata: None,
    });
    let live = world.snapshot.deployments.get(Namespace(NAMESPACE), Name(name)).unwrap().metadata.clone();
    assert!(cache.set_unreadable(&live, "`replicas` is no number".into()));
    let mut snapshot = world.snapshot.clone();
    cache.share_one(&Key::new(Namespace(NAMESPACE), Name(name)), &mut snapshot.deployments);
    let error = crate::children(service, &spec, &snapshot).unwrap_err();
    let object = Key::new(Namespace(NAMESPACE), Name(name)).of_kind(Kind::Deployment);
    assert_eq!(error, PlanError::Unreadable { object, reason: "`replicas` is no number".into() });
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot read Deployment {NAMESPACE}/{name}")), "{text}");
}
