//! Chat templates that mean harm, in the process that renders them: the server goes on.

use std::{
    fmt::Write,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::server::model;

/// What templates do, and what they do it to.
const ATTACKS: [(&str, &str, &str); 13] = [
    ("a list that holds itself many times, as JSON", WIDE, "{{ n.x|tojson|length }}"),
    ("the same as a text", WIDE, "{{ n.x|string|length }}"),
    ("the same joined to a text", WIDE, "{{ (n.x ~ 'a')|length }}"),
    ("the same as a reason", WIDE, "{{ raise_exception(n.x) }}"),
    ("two of them compared", WIDE, "{{ n.x == n.y }}"),
    ("two of them ordered", WIDE, "{{ [n.x, n.y]|sort|length }}"),
    ("JSON that is mostly white space", WIDE, "{{ [1]|tojson(indent=3000000000)|length }}"),
    ("a list that is deeper than the stack", DEEP, "x"),
    ("the same as JSON", DEEP, "{{ n.x|tojson|length }}"),
    ("a space of names that holds itself", "{% set n = namespace() %}{% set n.x = n %}", "{{ n|tojson }}"),
    ("the same in a list", "{% set n = namespace() %}{% set n.x = [n] %}", "{{ n ~ '' }}"),
    ("a macro that calls itself", "{% macro m(i) %}{{ m(i + 1) }}{% endmacro %}", "{{ m(0) }}"),
    ("a loop that calls itself", "", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
];
const WIDE: &str = "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}\
                    {% set n.y = [n.y, n.y] %}{% endfor %}";
const DEEP: &str =
    "{% set n = namespace(x=[1]) %}{% for i in range(90000) %}{% set n.x = [n.x] %}{% endfor %}";

/// `vllm launch render`, which needs no weights.
struct Server {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Server {
    async fn start(model: &Path, template: &Path) -> Self {
        longboat_tls::install_default_provider();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longboat-engine"));
        command.args(["launch", "render"]).arg(model).args(["--served-model-name", "m", "--chat-template"]);
        command.arg(template).args(["--port", &port.to_string()]).stderr(Stdio::inherit());
        command.env("HF_TOKEN", "a secret");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let server =
            Self { child: command.spawn().unwrap(), url: format!("http://127.0.0.1:{port}"), client };
        for _ in 0..1200 {
            if server
                .client
                .get(format!("{}/health", server.url))
                .send()
                .await
                .is_ok_and(|r| r.status() == 200)
            {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server does not become ready");
    }

    /// Whether a message is laid out, and the answer.
    async fn render(&self, message: &str) -> (bool, String) {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": message}]});
        let url = format!("{}/v1/chat/completions/render", self.url);
        let response = self.client.post(url).json(&body).send().await.unwrap();
        (response.status() == 200, response.text().await.unwrap())
    }

    /// The process IDs of the server's child processes.
    fn children(&self) -> Vec<String> {
        let children = format!("/proc/{0}/task", self.child.id());
        let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default()
        };
        let all: Vec<String> = std::fs::read_dir(children).unwrap().map(of_thread).collect();
        all.iter().flat_map(|children| children.split_whitespace()).map(str::to_owned).collect()
    }

    /// The most memory that a process below the server had, in MiB.
    fn peak(&self) -> u64 {
        let peak = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.to_owned();
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        };
        self.children().iter().filter_map(peak).max().unwrap_or_default() >> 10
    }
}

#[tokio::test]
async fn a_template_is_rendered_without_the_environment_of_the_server() {
    let Some(model) = model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    std::fs::write(&template, "Hello!").unwrap();
    let server = Server::start(&model, &template).await;
    let environment = |pid: &str| std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(String::from_utf8_lossy(&environment(&server.child.id().to_string())).contains("a secret"));
    let [renderer] = &server.children()[..] else { panic!("expected one process: {:?}", server.children()) };
    assert_eq!(String::from_utf8_lossy(&environment(renderer)), "");
}

#[tokio::test]
async fn whatever_a_template_does_the_server_answers_the_next_conversation() {
    let Some(model) = model() else { return };
    let mut source = "{% set what = messages[0].content %}{% if what == 'hello' %}Hello!".to_owned();
    for (number, (_, before, then)) in ATTACKS.iter().enumerate() {
        write!(source, "{{% elif what == '{number}' %}}{before}{then}").unwrap();
    }
    source += "{% endif %}";
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    std::fs::write(&template, source).unwrap();
    let server = Server::start(&model, &template).await;
    let (is_laid_out, hello) = server.render("hello").await;
    assert!(is_laid_out && hello.contains("token_ids"), "{hello}");
    for (number, (what, ..)) in ATTACKS.iter().enumerate() {
        let (is_laid_out, refusal) = server.render(&number.to_string()).await;
        let words = "The chat template of this model refuses the conversation: ";
        assert!(!is_laid_out && refusal.contains(words) && refusal.len() < 4000, "{what}: {refusal}");
        assert_eq!(server.render("hello").await, (true, hello.clone()), "after {what}");
        assert!(server.peak() < 1200, "{what}: {} MiB", server.peak());
    }
}

#[tokio::test]
async fn a_template_that_cannot_be_read_is_refused_at_the_start() {
    let Some(model) = model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.jinja");
    for source in ["{% if %}", &"{% if 1 %}".repeat(100_000), &format!("{{{{ {}1 }}}}", "-".repeat(100_000))]
    {
        std::fs::write(&template, source).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longboat-engine"));
        command.args(["launch", "render"]).arg(&model).arg("--chat-template").arg(&template);
        let output = command.args(["--port", "0"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("cannot parse the chat template"), "{stderr}");
    }
}
