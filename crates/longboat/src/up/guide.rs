//! Suggests the next steps once services are ready. Pure functions.

use std::{fmt::Write, path::Path};

use longboat_api::shell::quoted;
use owo_colors::OwoColorize;
use serde_json::json;

use super::{
    Service,
    question::{Api, Question},
};
use crate::tree::group::Group;

/// Returns the addresses of everything, a request to the first service, and how to use the cluster from another terminal.
pub(crate) fn lines(services: &[Service], groups: &[Group], kubeconfig: &Path, took: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    if !services.is_empty() {
        lines.push(format!("Ready after {took}."));
    }
    for service in services {
        let url = service.question.url.strip_suffix(&format!("/v1{}", service.question.api.path()));
        let url = url.unwrap_or(&service.question.url);
        let headers = service.question.headers.iter();
        let required: Vec<_> = headers.map(|(name, value)| format!(" with `{name}: {value}`")).collect();
        let required = required.concat();
        lines.push(format!("{} serves at {}{required}", service.name.bold(), url.cyan()));
    }
    for group in groups {
        lines.push(format!("group {} shares {}: {}", group.name.bold(), group.url.cyan(), group.shares));
    }
    let groups = groups.iter().map(|group| (Question::below(&group.url), &group.model));
    let services_first = services.iter().map(|service| (service.question.clone(), &service.model)).take(1);
    for (question, model) in services_first.chain(groups) {
        lines.extend(example_requests(&question, model));
    }
    if let [_, others @ ..] = services {
        let models =
            others.iter().map(|service| format!("  {} serves the model {}", service.name, service.model));
        lines.extend(models);
    }
    lines.push(String::new());
    lines.push(format!("{}", "In another terminal:".bold()));
    lines.push(format!("  export KUBECONFIG={}", quoted(&kubeconfig.display().to_string())));
    lines.push("  kubectl get llmisvc       # and all other kubectl commands".into());
    lines.push("  longboat doctor           # find out why something does not work".into());
    lines.push(String::new());
    lines
}

fn example_requests(question: &Question, model: &str) -> Vec<String> {
    let Question { api, url, headers, needs_key, engine_key, .. } = question;
    let needs_key = *needs_key || engine_key.is_some();
    // The cluster has its own certificate authority.
    let is_secure = url.starts_with("https://");
    let insecure = if is_secure { "-k " } else { "" };
    let header_args =
        headers.iter().map(|(name, value)| format!(" -H {}", quoted(&format!("{name}: {value}"))));
    let mut header_args: String = header_args.collect();
    if needs_key {
        header_args.push_str(" -H \"Authorization: Bearer $KEY\"");
    }
    let mut lines = vec![String::new()];
    lines.extend(engine_key.iter().map(|key| format!("  {}", key.line)));
    let resolved = question.resolved();
    // curl wants the port with `--resolve`, also the usual one.
    let port = url.parse::<http::Uri>().ok().and_then(|url| url.port_u16()).unwrap_or(443);
    let resolve = resolved.as_ref().map(|(host, socket)| format!("--resolve {host}:{port}:{} ", socket.ip()));
    let resolve = resolve.unwrap_or_default();
    lines.extend([
        format!(
            "  curl {insecure}{resolve}{}{header_args} -H 'Content-Type: application/json' \\",
            quoted(url)
        ),
        format!("    -d {}", quoted(&api.body(model, "Hello"))),
    ]);
    if let Some((host, socket)) = resolved {
        lines.push(format!(
            "  # other programs find the name with the line `{} {host}` in /etc/hosts",
            socket.ip()
        ));
    }
    let Some(base) = question.base() else { return lines };
    lines.extend([String::new(), "  from openai import OpenAI".into()]);
    let mut options = String::new();
    let key = if needs_key {
        lines.push("  import os".into());
        "os.environ[\"KEY\"]"
    } else {
        "\"none\""
    };
    if is_secure {
        lines.push("  import httpx".into());
        options += ", http_client=httpx.Client(verify=False)";
    }
    if !headers.is_empty() {
        // A text in JSON is one in Python, too.
        let pairs: Vec<_> =
            headers.iter().map(|(name, value)| format!("{}: {}", json!(name), json!(value))).collect();
        let _ = write!(options, ", default_headers={{{}}}", pairs.join(", "));
    }
    let (call, argument) = match api {
        Api::Chat => ("chat.completions", "messages=[{\"role\": \"user\", \"content\": \"Hello\"}]"),
        Api::Completions => ("completions", "prompt=\"Hello\""),
        Api::Embeddings => ("embeddings", "input=\"Hello\""),
    };
    lines.push(format!("  client = OpenAI(base_url=\"{base}\", api_key={key}{options})"));
    lines.push(format!("  print(client.{call}.create(model={}, {argument}))", json!(model)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::engine_key::RequiredKey;

    #[test]
    fn the_first_service_is_asked_and_all_are_named() {
        let service = |name: &str, url: &str| Service {
            name: name.into(),
            url: url.into(),
            model: format!("m/{name}"),
            question: Question::below(url),
        };
        let services =
            [service("ns/a", "https://127.96.0.1:8000"), service("ns/b", "http://127.0.0.1:8080/ns/b")];
        let text = lines(&services, &[], Path::new("/tmp/k"), "4s").join("\n");
        let text = anstream::adapter::strip_str(&text).to_string();
        for part in [
            "Ready after 4s.\n",
            "ns/a serves at https://127.96.0.1:8000\n",
            "ns/b serves at http://127.0.0.1:8080/ns/b\n",
            "curl -k https://127.96.0.1:8000/v1/chat/completions",
            r#"{"model": "m/ns/a", "#,
            "import httpx\n",
            "verify=False",
            "ns/b serves the model m/ns/b",
            "export KUBECONFIG=/tmp/k",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("curl").count(), 1, "{text}");
    }

    #[test]
    fn what_a_route_requires_is_in_the_request() {
        let service = |api: Api, url: &str, headers: &[(&str, &str)]| Service {
            name: "ns/a".into(),
            url: "http://127.0.0.1:8080/somewhere".into(),
            model: "m".into(),
            question: Question {
                api,
                url: url.into(),
                headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
                resolve: url.starts_with("https://a.").then(|| "127.96.0.1:8443".parse().unwrap()),
                needs_key: url.contains("keyed"),
                engine_key: url
                    .contains("guarded")
                    .then(|| RequiredKey { text: None, line: "export KEY=x".into() }),
            },
        };
        let text = |service: Service| {
            let text = lines(&[service], &[], Path::new("/tmp/k"), "4s").join("\n");
            anstream::adapter::strip_str(&text).to_string()
        };
        let url = "http://127.0.0.1:8080/my/v1/completions";
        let shown = text(service(Api::Completions, url, &[("Host", "a.example.com")]));
        for part in [
            "ns/a serves at http://127.0.0.1:8080/my with `Host: a.example.com`\n",
            "curl http://127.0.0.1:8080/my/v1/completions -H 'Host: a.example.com' -H 'Content-Type",
            r#"-d '{"model": "m", "prompt": "Hello"}'"#,
            r#"OpenAI(base_url="http://127.0.0.1:8080/my/v1", api_key="none", default_headers={"Host": "a.example.com"})"#,
            r#"client.completions.create(model="m", prompt="Hello")"#,
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("/etc/hosts") && !shown.contains("KEY"), "{shown}");
        let shown = text(service(Api::Chat, "http://127.0.0.1:8080/ns/keyed/v1/chat/completions", &[]));
        assert!(shown.contains(r#"-H "Authorization: Bearer $KEY""#), "{shown}");
        assert!(shown.contains(r#"api_key=os.environ["KEY"])"#), "{shown}");
        let shown = text(service(Api::Chat, "http://127.0.0.1:8080/ns/guarded/v1/chat/completions", &[]));
        assert!(shown.contains("\n  export KEY=x\n  curl") && shown.contains("Bearer $KEY"), "{shown}");
        let shown = text(service(Api::Chat, "https://a.example.com:8443/ns/a/v1/chat/completions", &[]));
        for part in [
            "curl -k --resolve a.example.com:8443:127.96.0.1 https://a.example.com:8443/ns/a/v1/chat/completions -H",
            "`127.96.0.1 a.example.com` in /etc/hosts",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let odd = text(service(
            Api::Chat,
            "http://127.0.0.1:8080/v1/chat/completions",
            &[("x-team", "o'neil \"a\"")],
        ));
        for part in [r#"-H 'x-team: o'\''neil "a"' -H"#, r#"default_headers={"x-team": "o'neil \"a\""}"#] {
            assert!(odd.contains(part), "{part}: {odd}");
        }
        // OpenAI's clients add the path of the API, so they cannot use this address.
        let shown = text(service(Api::Chat, "http://127.0.0.1:8080/ask", &[]));
        assert!(shown.contains("curl http://127.0.0.1:8080/ask -H") && !shown.contains("OpenAI"), "{shown}");
    }
}
