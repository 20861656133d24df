"""One file with everything, and the secrets that must not show."""

UPSTREAM_CANARY = "sk-canary-upstream-5f1e7b9d"
API_KEY_CANARY = "sk-canary-tenant-0a9b8c7d6e5f4a3b2c1d"
BAD_TEXT = "\udc80"  # what Python makes of bytes that are no UTF-8
ENVIRON = {
    "UPSTREAM_KEY": UPSTREAM_CANARY,
    "TENANT_KEY": API_KEY_CANARY,
    "PORT": "4030",
    "BAD_TEXT": BAD_TEXT,
}

FULL = """
flags: {IMAGES_FAILOVER_ENABLED: false, RETRY_TIMES: 3}
stream_policies: [{name: patient, stream_policy: "", idle_timeout_seconds: 300}]
channels:
  - {name: main, kind: openai, base_url: "http://127.0.0.1:${PORT}", models: ["*"], model_mapping: {}, priority: 10,
     weight: 1, groups: [default], keys: ["${UPSTREAM_KEY}"], policy: patient, non_stream_timeout_seconds: 0,
     status: enabled}
prices: [{model: "*", input: 1.0, cached_input: 0.5, output: 2.0}]
tenants:
  - {name: demo, group: default, balance_usd: 10, api_keys: [{name: first, key: "${TENANT_KEY}"}, {name: second}]}
"""
