use serde_json::json;

use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// A world of one picker and two replicas. The first one is asked what it does.
struct World {
    replicas: BTreeMap<String, IpAddr>,
    ending: BTreeSet<IpAddr>,
    marked: BTreeMap<Key, MarkedDeployment>,
    slices: BTreeMap<Key, EndpointSlice>,
    hosted: BTreeMap<Key, HostedPool>,
    own: &'static str,
    other: &'static str,
}

impl World {
    fn new() -> Self {
        let marked = deployment(&[], 0);
        let pool = marked.picker.as_ref().unwrap().spec.pool.clone();
        let own = winner(&pool, ["a", "b"]).unwrap();
        let other = if own == "a" { "b" } else { "a" };
        Self {
            replicas: BTreeMap::from([(own.to_owned(), A), (other.to_owned(), B)]),
            ending: BTreeSet::new(),
            marked: BTreeMap::from([(marked.deployment.clone(), marked)]),
            slices: BTreeMap::new(),
            hosted: BTreeMap::new(),
            own: if own == "a" { "a" } else { "b" },
            other,
        }
    }

    fn step(&self) -> Step {
        step(&ReplicaView {
            own: (self.own, A),
            replicas: &self.replicas,
            ending: &self.ending,
            marked: &self.marked,
            slices: &self.slices,
            hosted: &self.hosted,
        })
    }

    fn marked(&self) -> &MarkedDeployment {
        self.marked.values().next().unwrap()
    }

    fn picker(&self) -> Picker {
        self.marked().picker.clone().unwrap()
    }

    fn describe(&mut self, flags: &[&str], available: i32) {
        let marked = deployment(flags, available);
        self.marked = BTreeMap::from([(marked.deployment.clone(), marked)]);
    }

    fn host(&mut self, picker: Picker, serving: bool) {
        let hosted = HostedPool { port: Some(20_001), serving, problem: None, limit: None, picker };
        self.hosted.insert(hosted.picker.spec.pool.clone(), hosted);
    }

    fn say(&mut self, state: &SliceState) {
        let slice = slice_of(self.marked(), state, A);
        self.slices.insert(Key::of_metadata(&slice.metadata), slice);
    }

    /// What the step says in the slice, and whether the picker runs with an open port.
    fn outcome(&self) -> (Option<SliceState>, bool) {
        let step = self.step();
        assert_eq!(step.delete, []);
        (step.write.first().map(state_of), !step.host.is_empty())
    }
}

fn deployment(flags: &[&str], available: i32) -> MarkedDeployment {
    let command = ["/app/epp", "--pool-name=pool", "--pool-namespace=ns"];
    let deployment = serde_json::from_value(json!({
        "metadata": {
            "name": "one", "namespace": "ns", "uid": "u",
            "labels": {"app.kubernetes.io/name": "svc"}, "annotations": {"longboat.dev/picker-service": "epp"},
        },
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "main", "command": command, "args": flags},
        ]}}},
        "status": {"availableReplicas": available},
    }))
    .unwrap();
    MarkedDeployment::of(&deployment, 1 << 20, 0, None).unwrap()
}

fn at(address: IpAddr) -> SliceState {
    SliceState { place: Some(Place { address, port: 20_001 }), ..SliceState::default() }
}

#[test]
fn a_slice_names_a_replica_only_when_it_picks() {
    let mut world = World::new();
    assert_eq!(
        world.outcome(),
        (Some(SliceState::default()), true),
        "the service can see that nobody picks yet"
    );
    world.say(&SliceState::default());
    world.host(world.picker(), false);
    assert_eq!(world.outcome(), (None, true));
    world.host(world.picker(), true);
    assert_eq!(world.outcome(), (Some(at(A)), true));
    world.say(&at(A));
    assert_eq!(world.outcome(), (None, true));
}

#[test]
fn another_replica_goes_on_until_this_one_picks() {
    let mut world = World::new();
    world.say(&at(B));
    assert_eq!(world.outcome(), (None, true));
    world.host(world.picker(), false);
    assert_eq!(world.outcome(), (None, true));
    world.host(world.picker(), true);
    assert_eq!(world.outcome(), (Some(at(A)), true));
    // One that ends goes on, and one that has died does not.
    world.host(world.picker(), false);
    world.replicas.remove(world.other);
    world.ending.insert(B);
    assert_eq!(world.outcome(), (None, true));
    world.ending.clear();
    assert_eq!(world.outcome(), (Some(SliceState::default()), true));
}

#[test]
fn a_replica_that_lost_a_pool_closes_its_port_after_the_slice_names_another_one() {
    let mut world = World::new();
    world.host(world.picker(), true);
    world.say(&at(A));
    // It ends, so it is no replica that takes pools.
    world.replicas.remove(world.own);
    assert_eq!(world.outcome(), (None, true));
    world.say(&at(B));
    assert_eq!(world.outcome(), (None, false));
}

#[test]
fn what_fails_is_said_while_the_former_picker_goes_on() {
    let mut world = World::new();
    world.host(world.picker(), true);
    world.say(&at(A));
    let pool = world.hosted.values_mut().next().unwrap();
    pool.problem = Some("broken".to_owned());
    assert_eq!(world.outcome().0, Some(SliceState { problem: Some("broken".to_owned()), ..at(A) }));
}

#[test]
fn a_limit_is_written_once_and_taken_away() {
    let mut world = World::new();
    world.host(world.picker(), true);
    world.say(&at(A));
    let limit = |world: &mut World, limit: Option<&str>| {
        world.hosted.values_mut().next().unwrap().limit = limit.map(str::to_owned);
    };
    limit(&mut world, Some("8 open requests"));
    let limited = SliceState { limit: Some("8 open requests".to_owned()), ..at(A) };
    assert_eq!(world.outcome().0, Some(limited.clone()));
    world.say(&limited);
    assert_eq!(world.outcome().0, None);
    limit(&mut world, None);
    assert_eq!(world.outcome().0, Some(at(A)));
}

#[test]
fn a_picker_that_comes_to_need_its_pod_is_shared_until_its_pod_picks() {
    let mut world = World::new();
    world.host(world.picker(), true);
    world.say(&at(A));
    world.describe(&["--config-file=/x"], 0);
    let need = || Some("the file of its configuration".to_owned());
    // The replica that wins by the Deployment's name reports it, whoever picks.
    world.replicas = BTreeMap::from([(world.own.to_owned(), A)]);
    assert_eq!(world.outcome(), (Some(SliceState { need: need(), ..at(A) }), true));
    world.say(&SliceState { need: need(), ..at(A) });
    assert_eq!(world.outcome(), (None, true));
    world.describe(&["--config-file=/x"], 1);
    assert_eq!(world.outcome(), (Some(SliceState { need: need(), ..SliceState::default() }), false));
}

#[test]
fn a_replica_that_has_forgotten_what_it_picked_with_says_so() {
    let mut world = World::new();
    world.describe(&["--config-file=/x"], 0);
    let need = Some("the file of its configuration".to_owned());
    world.say(&SliceState { need: need.clone(), ..at(A) });
    assert_eq!(world.outcome(), (Some(SliceState { need: need.clone(), ..SliceState::default() }), false));
    world.say(&SliceState { need, ..SliceState::default() });
    assert_eq!(world.outcome(), (None, false));
}

#[test]
fn slices_of_pickers_that_are_not_shared_are_deleted_by_one_replica() {
    let mut world = World::new();
    world.say(&at(A));
    world.host(world.picker(), true);
    world.marked.clear();
    let slice = Key::new(longboat_key::Namespace("ns"), longboat_key::Name("one-shared"));
    let expected = [slice.clone()];
    world.replicas = BTreeMap::from([(world.own.to_owned(), A)]);
    assert_eq!(world.step(), Step { delete: expected.to_vec(), ..Step::default() });
    world.replicas = BTreeMap::from([(world.other.to_owned(), B)]);
    assert_eq!(world.step(), Step::default());
}

#[test]
fn of_two_deployments_for_one_pool_one_counts() {
    let mut world = World::new();
    let second = MarkedDeployment {
        deployment: Key::new(longboat_key::Namespace("ns"), longboat_key::Name("two")),
        ..world.marked().clone()
    };
    world.marked.insert(second.deployment.clone(), second);
    let step = world.step();
    let written: Vec<_> = step.write.iter().map(|slice| slice.metadata.name.clone().unwrap()).collect();
    assert_eq!((written, step.host.len()), (vec!["one-shared".to_owned()], 1));
}
