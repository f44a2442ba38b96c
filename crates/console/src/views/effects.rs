//! Effects of the bridge, written for the page.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_apps_ext::host::{DownloadContent, DownloadFile, Effect, HostRequest};
use serde_json::{Value, json};

use crate::ServerTools;

/// An effect as the page gets it: JSON text of an object with one member that names it.
pub(super) fn effect_for_page(effect: &Effect, server: &ServerTools) -> Option<String> {
    let shown = match effect {
        // The bridge wrote the text as JSON.
        Effect::Send(text) => return Some(format!(r#"{{"send":{text}}}"#)),
        Effect::SendToSandbox(text) => return Some(format!(r#"{{"sendToSandbox":{text}}}"#)),
        Effect::Resize(size) => json!({ "resize": size }),
        Effect::ShowMode(mode) => json!({ "showMode": mode }),
        Effect::Request { token, request } => {
            let mut shown = request_for_page(request, server);
            shown["token"] = token.number().into();
            json!({ "request": shown })
        }
        Effect::Cancel { token } => json!({ "cancel": { "token": token.number() } }),
        Effect::SetModelContext(context) => json!({ "modelContext": context }),
        Effect::Log(entry) => json!({ "log": entry }),
        Effect::AppTools(tools) => {
            let tools: Vec<_> = tools
                .iter()
                .map(|it| json!({ "tool": it.tool, "needsConsent": it.needs_consent() }))
                .collect();
            json!({ "appTools": tools })
        }
        Effect::AppAnswer { call, outcome } => match outcome {
            Ok(result) => json!({ "appAnswer": { "call": call, "result": result } }),
            Err(error) => json!({ "appAnswer": { "call": call, "error": error.to_string() } }),
        },
        Effect::Alive(is_alive) => json!({ "alive": is_alive }),
        Effect::Remove(reason) => json!({ "remove": { "reason": reason.to_string() } }),
        // Records are in the audit log; effects of later versions of the bridge are not for this
        // page.
        _ => return None,
    };
    Some(shown.to_string())
}

fn request_for_page(request: &HostRequest, server: &ServerTools) -> Value {
    match request {
        HostRequest::OpenLink { url } => json!({ "openLink": { "url": url } }),
        HostRequest::AddMessage(message) => json!({ "addMessage": message }),
        HostRequest::SetDisplayMode(mode) => json!({ "setDisplayMode": mode }),
        HostRequest::Download(files) => {
            json!({ "download": files.iter().map(file_for_page).collect::<Vec<_>>() })
        }
        HostRequest::CallTool { name, arguments, wants_progress } => {
            // The bridge has found the tool in this list.
            let found = server.tools.iter().find(|(tool, _)| tool.name == *name);
            let exposed = found.map(|(_, exposed)| exposed);
            // It marks arguments that headers repeat.
            let schema = found.map(|(tool, _)| &tool.input_schema);
            json!({ "callTool": { "tool": exposed, "schema": schema, "arguments": arguments, "wantsProgress": wants_progress } })
        }
        HostRequest::Forward { method, params } => {
            json!({ "forward": { "server": server.server, "method": method, "params": params } })
        }
        HostRequest::Sample { params } => json!({ "sample": params }),
        _ => json!({}),
    }
}

fn file_for_page(file: &DownloadFile) -> Value {
    match &file.content {
        DownloadContent::Bytes(bytes) => {
            let data = STANDARD.encode(bytes);
            json!({ "name": file.name, "mimeType": file.mime_type, "data": data })
        }
        DownloadContent::Link(uri) => json!({ "name": file.name, "link": uri }),
    }
}
