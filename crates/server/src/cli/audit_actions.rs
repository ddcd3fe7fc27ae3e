//! `dewar audit --actions`: the actions of administrators that the audit log can record.

use dewar_admin::{COMMANDS, Effect};
use serde::Serialize;

use super::admin_request::show;
use super::columns::{print, table};
use super::exit::CommandResult;

#[derive(Serialize)]
struct AdminAction {
    action: &'static str,
    /// The name of the request on the admin socket.
    request: &'static str,
    /// `reads` or `changes`.
    effect: &'static str,
}

fn actions() -> Vec<AdminAction> {
    let mut all = Vec::new();
    for spec in COMMANDS
        .iter()
        .flat_map(|group| group.iter())
        .map(|command| command.spec)
    {
        let actions = [Some(spec.action), spec.other_action];
        all.extend(actions.into_iter().flatten().map(|action| AdminAction {
            action,
            request: spec.name,
            effect: match spec.effect {
                Effect::Read => "reads",
                Effect::Change => "changes",
            },
        }));
    }
    all.sort_by_key(|action| (action.action, action.request));
    all
}

pub(super) fn list(json: bool, markdown: bool) -> CommandResult {
    let actions = actions();
    match markdown {
        true => print(&page(&actions)).map(|()| 0),
        false => show(&*actions, json, text),
    }
}

fn text(actions: &[AdminAction]) -> String {
    let rows = actions.iter().map(|action| {
        let cells = [action.action, action.effect, action.request];
        cells.map(str::to_owned).to_vec()
    });
    table(&["ACTION", "EFFECT", "REQUEST"], &rows.collect::<Vec<_>>())
}

fn page(actions: &[AdminAction]) -> String {
    let mut page = String::from(
        "# Actions of administrators\n\n\
         Made by `cargo xtask docs` from the table of admin commands. Do not edit.\n\n\
         The audit log records an action under the name in the first column. An action that only \
         reads is recorded if `audit.reads` is set. The last column is the name of the request on the \
         admin socket, a JSON object: `user_list` stands for `{\"user_list\":{…}}`, and `quota.show` \
         for `{\"quota\":{\"show\":{…}}}`.\n\n\
         | action | effect | request |\n|---|---|---|\n",
    );
    for AdminAction {
        action,
        request,
        effect,
    } in actions
    {
        page.push_str(&format!("| `{action}` | {effect} | `{request}` |\n"));
    }
    page
}
