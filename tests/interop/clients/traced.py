"""A client of FastMCP calls a tool through `marquetry stdio`, and a collector gets the spans of all
three programs.

traced.py MARQUETRY MCP_JSON prints each span as a line of JSON. The collector reads exports with
the messages of the package opentelemetry-proto.
"""

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

spans = []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            import gzip

            body = gzip.decompress(body)
        export = ExportTraceServiceRequest.FromString(body)
        for resource in export.resource_spans:
            names = {it.key: it.value.string_value for it in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    spans.append(
                        {
                            "service": names["service.name"],
                            "name": span.name,
                            "kind": span.kind,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                        }
                    )
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


async def call(marquetry, mcp_json):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "agent"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    transport = StdioTransport(
        marquetry, ["stdio", "--mcp-config", mcp_json], env=dict(os.environ), keep_alive=False
    )
    async with Client(transport) as client:
        result = await client.call_tool("adder__add", {"a": 1, "b": 2})
        assert result.data == 3, result
    provider.shutdown()


collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=collector.serve_forever, daemon=True).start()
endpoint = f"http://127.0.0.1:{collector.server_port}"
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
_, marquetry, mcp_json = sys.argv
with open(mcp_json, encoding="utf-8") as file:
    config = json.load(file)
config["mcpServers"]["adder"]["env"] = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
with open(mcp_json, "w", encoding="utf-8") as file:
    json.dump(config, file)
asyncio.run(call(marquetry, mcp_json))
for span in spans:
    print(json.dumps(span))
