use proptest::prelude::*;
use serde_json::json;

use super::{BASE64_STANDARD, Engine, decode};

fn body(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap()
}

#[test]
fn what_kubectl_create_sends_reads_as_the_object_it_means() {
    // kubectl create configmap c --from-literal=a=b
    let config =
        "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEioKIAoBYxIAGg90LWh0dHAtcHJvdG9idWYiACoAMgA4AEIAEgYKAWESAWIaACIA";
    assert_eq!(
        decode(&body(config), "", ""),
        Ok(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "t-http-protobuf"},
            "data": {"a": "b"},
        }))
    );
    // kubectl create deployment d --image=x:1 --replicas=2 --port=80
    let deployment = "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErgBCioKAWQSABoPdC1odHRwLXByb3RvYnVmIgAqADIAOABCAFoICgNhcHASAWQSfAgCEgoKCAoDYXBwEgFkGmQKGgoAEgAaACIAKgAyADgAQgBaCAoDYXBwEgFkEkYSKAoBeBIDeDoxKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=";
    let object = decode(&body(deployment), "", "").unwrap();
    assert_eq!(object["spec"]["replicas"], 2);
    assert_eq!(object["spec"]["selector"], json!({"matchLabels": {"app": "d"}}));
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        *container,
        json!({"name": "x", "image": "x:1", "ports": [{"containerPort": 80}], "resources": {}})
    );
}

#[test]
fn options_of_a_deletion_are_read_in_every_group() {
    for (version, length) in [("v1", 0x13), ("apps/v1", 0x18)] {
        let mut bytes = b"k8s\0\x0a".to_vec();
        bytes.extend([length, 0x0a, u8::try_from(version.len()).unwrap()]);
        bytes.extend(version.as_bytes());
        bytes.extend(b"\x12\x0dDeleteOptions");
        // gracePeriodSeconds: 5
        bytes.extend(b"\x12\x02\x08\x05");
        let expected = json!({"apiVersion": version, "kind": "DeleteOptions", "gracePeriodSeconds": 5});
        assert_eq!(decode(&bytes, "v1", "DeleteOptions"), Ok(expected));
    }
}

#[test]
fn other_bodies_are_refused() {
    let refusal = |body: &[u8]| decode(body, "v1", "ConfigMap").unwrap_err();
    let refused = refusal(b"{}");
    assert!(refused.why.contains("does not appear to be a protobuf message") && refused.kind.is_none());
    let refused = refusal(b"k8s\0\x0a\x7f");
    assert!(refused.why == "unexpected EOF" && refused.kind.is_none());
    // without a kind in the envelope, the object has the kind of the request
    let refused = refusal(b"k8s\0\x12\x02\x0a\x7f");
    assert_eq!(refused.kind, Some(("v1".to_owned(), "ConfigMap".to_owned())));
    let refused = refusal(b"k8s\0\x0a\x03\x12\x01X");
    assert!(refused.why.starts_with("no kind \"X\" is registered for version \"v1\""), "{refused:?}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes, "v1", "Pod");
        let mut typed = body("azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50Eg==");
        typed.push(u8::try_from(bytes.len()).unwrap());
        typed.extend(bytes);
        let _ = decode(&typed, "v1", "Pod");
    }
}
