//! All operations of the toolbox.

use super::Method::{Delete, Get, Post};
use super::Support::{Shim, Supported, Unavailable};
use super::reasons::INITIALIZE;
use super::{Operation, Plane, Support};

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Operation] = &[
    op(Post, "/computeruse/a11y/find", "FindAccessibilityNodes", "computer-use", Unavailable),
    op(Post, "/computeruse/a11y/node/focus", "FocusAccessibilityNode", "computer-use", Unavailable),
    op(Post, "/computeruse/a11y/node/invoke", "InvokeAccessibilityNode", "computer-use", Unavailable),
    op(Post, "/computeruse/a11y/node/value", "SetAccessibilityNodeValue", "computer-use", Unavailable),
    op(Get, "/computeruse/a11y/tree", "GetAccessibilityTree", "computer-use", Unavailable),
    op(Get, "/computeruse/display/info", "GetDisplayInfo", "computer-use", Unavailable),
    op(Get, "/computeruse/display/windows", "GetWindows", "computer-use", Unavailable),
    op(Post, "/computeruse/keyboard/hotkey", "PressHotkey", "computer-use", Unavailable),
    op(Post, "/computeruse/keyboard/key", "PressKey", "computer-use", Unavailable),
    op(Post, "/computeruse/keyboard/type", "TypeText", "computer-use", Unavailable),
    op(Post, "/computeruse/mouse/click", "Click", "computer-use", Unavailable),
    op(Post, "/computeruse/mouse/drag", "Drag", "computer-use", Unavailable),
    op(Post, "/computeruse/mouse/move", "MoveMouse", "computer-use", Unavailable),
    op(Get, "/computeruse/mouse/position", "GetMousePosition", "computer-use", Unavailable),
    op(Post, "/computeruse/mouse/scroll", "Scroll", "computer-use", Unavailable),
    op(Get, "/computeruse/process-status", "GetComputerUseStatus", "computer-use", Unavailable),
    op(Get, "/computeruse/process/{processName}/errors", "GetProcessErrors", "computer-use", Unavailable),
    op(Get, "/computeruse/process/{processName}/logs", "GetProcessLogs", "computer-use", Unavailable),
    op(Post, "/computeruse/process/{processName}/restart", "RestartProcess", "computer-use", Unavailable),
    op(Get, "/computeruse/process/{processName}/status", "GetProcessStatus", "computer-use", Unavailable),
    op(Get, "/computeruse/recordings", "ListRecordings", "computer-use", Unavailable),
    op(Post, "/computeruse/recordings/start", "StartRecording", "computer-use", Unavailable),
    op(Post, "/computeruse/recordings/stop", "StopRecording", "computer-use", Unavailable),
    op(Delete, "/computeruse/recordings/{id}", "DeleteRecording", "computer-use", Unavailable),
    op(Get, "/computeruse/recordings/{id}", "GetRecording", "computer-use", Unavailable),
    op(Get, "/computeruse/recordings/{id}/download", "DownloadRecording", "computer-use", Unavailable),
    op(Get, "/computeruse/screenshot", "TakeScreenshot", "computer-use", Unavailable),
    op(Get, "/computeruse/screenshot/compressed", "TakeCompressedScreenshot", "computer-use", Unavailable),
    op(Get, "/computeruse/screenshot/region", "TakeRegionScreenshot", "computer-use", Unavailable),
    op(Get, "/computeruse/screenshot/region/compressed", "TakeCompressedRegionScreenshot", "computer-use", Unavailable),
    op(Post, "/computeruse/start", "StartComputerUse", "computer-use", Unavailable),
    op(Get, "/computeruse/status", "GetComputerUseSystemStatus", "computer-use", Unavailable),
    op(Post, "/computeruse/stop", "StopComputerUse", "computer-use", Unavailable),
    unwritten(Post, "/computeruse/keyboard/down", "KeyDown", "computer-use", Unavailable),
    unwritten(Post, "/computeruse/keyboard/up", "KeyUp", "computer-use", Unavailable),
    unwritten(Post, "/computeruse/mouse/down", "MouseDown", "computer-use", Unavailable),
    unwritten(Post, "/computeruse/mouse/up", "MouseUp", "computer-use", Unavailable),

    op(Post, "/env", "UpdateEnv", "server", Supported),
    op(Post, "/init", "Initialize", "server", instead(INITIALIZE)),

    op(Delete, "/files", "DeleteFile", "file-system", Supported),
    op(Get, "/files", "ListFiles", "file-system", Supported),
    op(Post, "/files/bulk-download", "DownloadFiles", "file-system", Supported),
    op(Post, "/files/bulk-upload", "UploadFiles", "file-system", Supported),
    op(Get, "/files/download", "DownloadFile", "file-system", Supported),
    op(Get, "/files/find", "FindInFiles", "file-system", Supported),
    op(Post, "/files/folder", "CreateFolder", "file-system", Supported),
    op(Get, "/files/info", "GetFileInfo", "file-system", Supported),
    op(Post, "/files/move", "MoveFile", "file-system", Supported),
    op(Post, "/files/permissions", "SetFilePermissions", "file-system", Supported),
    op(Post, "/files/replace", "ReplaceInFiles", "file-system", Supported),
    op(Get, "/files/search", "SearchFiles", "file-system", Supported),
    op(Post, "/files/upload-v2", "UploadFile", "file-system", Supported),

    op(Post, "/git/add", "AddFiles", "git", Supported),
    op(Delete, "/git/branches", "DeleteBranch", "git", Supported),
    op(Get, "/git/branches", "ListBranches", "git", Supported),
    op(Post, "/git/branches", "CreateBranch", "git", Supported),
    op(Post, "/git/checkout", "CheckoutBranch", "git", Supported),
    op(Post, "/git/clone", "CloneRepository", "git", Supported),
    op(Post, "/git/commit", "CommitChanges", "git", Supported),
    op(Get, "/git/config", "GetGitConfig", "git", Supported),
    op(Post, "/git/config", "SetGitConfig", "git", Supported),
    op(Post, "/git/config/user", "ConfigureUser", "git", Supported),
    op(Post, "/git/credentials", "Authenticate", "git", Supported),
    op(Get, "/git/history", "GetCommitHistory", "git", Supported),
    op(Post, "/git/init", "InitRepository", "git", Supported),
    op(Post, "/git/pull", "PullChanges", "git", Supported),
    op(Post, "/git/push", "PushChanges", "git", Supported),
    op(Get, "/git/remotes", "ListRemotes", "git", Supported),
    op(Post, "/git/remotes", "AddRemote", "git", Supported),
    op(Post, "/git/reset", "ResetChanges", "git", Supported),
    op(Post, "/git/restore", "RestoreFiles", "git", Supported),
    op(Get, "/git/status", "GetStatus", "git", Supported),

    op(Post, "/lsp/completions", "Completions", "lsp", Supported),
    op(Post, "/lsp/did-close", "DidClose", "lsp", Supported),
    op(Post, "/lsp/did-open", "DidOpen", "lsp", Supported),
    op(Get, "/lsp/document-symbols", "DocumentSymbols", "lsp", Supported),
    op(Post, "/lsp/start", "Start", "lsp", Supported),
    op(Post, "/lsp/stop", "Stop", "lsp", Supported),
    op(Get, "/lsp/workspacesymbols", "WorkspaceSymbols", "lsp", Supported),

    op(Get, "/port", "GetPorts", "port", Supported),
    op(Get, "/port/{port}/in-use", "IsPortInUse", "port", Supported),

    op(Post, "/process/code-run", "CodeRun", "process", Supported),
    op(Post, "/process/execute", "ExecuteCommand", "process", Supported),
    op(Get, "/process/pty", "ListPtySessions", "process", Supported),
    op(Post, "/process/pty", "CreatePtySession", "process", Supported),
    op(Delete, "/process/pty/{sessionId}", "DeletePtySession", "process", Supported),
    op(Get, "/process/pty/{sessionId}", "GetPtySession", "process", Supported),
    op(Get, "/process/pty/{sessionId}/connect", "ConnectPtySession", "process", Supported),
    op(Post, "/process/pty/{sessionId}/resize", "ResizePtySession", "process", Supported),
    op(Get, "/process/session", "ListSessions", "process", Supported),
    op(Post, "/process/session", "CreateSession", "process", Supported),
    op(Get, "/process/session/entrypoint", "GetEntrypointSession", "process", Supported),
    op(Get, "/process/session/entrypoint/logs", "GetEntrypointLogs", "process", Supported),
    op(Delete, "/process/session/{sessionId}", "DeleteSession", "process", Supported),
    op(Get, "/process/session/{sessionId}", "GetSession", "process", Supported),
    op(Get, "/process/session/{sessionId}/command/{commandId}", "GetSessionCommand", "process", Supported),
    op(Post, "/process/session/{sessionId}/command/{commandId}/input", "SendInput", "process", Supported),
    op(Get, "/process/session/{sessionId}/command/{commandId}/logs", "GetSessionCommandLogs", "process", Supported),
    op(Post, "/process/session/{sessionId}/exec", "SessionExecuteCommand", "process", Supported),
    unwritten(Get, "/process/pty/create-connect", "CreateConnectPtySession", "process", Supported),

    op(Get, "/process/interpreter/context", "ListInterpreterContexts", "interpreter", Supported),
    op(Post, "/process/interpreter/context", "CreateInterpreterContext", "interpreter", Supported),
    op(Delete, "/process/interpreter/context/{id}", "DeleteInterpreterContext", "interpreter", Supported),
    op(Get, "/process/interpreter/execute", "ExecuteInterpreterCode", "interpreter", Supported),

    op(Get, "/system/metrics", "GetSystemMetrics", "system", Supported),

    op(Get, "/user-home-dir", "GetUserHomeDir", "info", Supported),
    op(Get, "/version", "GetVersion", "info", Supported),
    op(Get, "/work-dir", "GetWorkDir", "info", Supported),
    unwritten(Get, "/project-dir", "GetProjectDir", "info", Shim),
];

const fn op(
    method: super::Method,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    support: Support,
) -> Operation {
    Operation::new(Plane::Toolbox, method, path, id, tag, support)
}

/// One that SDKs use and that the OpenAPI documents do not have.
const fn unwritten(
    method: super::Method,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    support: Support,
) -> Operation {
    op(method, path, id, tag, support).outside_specification()
}

const fn instead(instead: &'static str) -> Support {
    Support::NotImplemented { instead }
}
