"""CloudRift: the question it is asked."""

from __future__ import annotations

from asked import Asked

from scrapers import cloudrift


def test_virtual_machines_are_asked_for_in_one_version_of_the_api() -> None:
    client = Asked({"data": {"instance_types": []}})
    cloudrift.fetch(client, {})
    ((method, path, question, headers),) = client.asked
    assert (method, path, headers) == ("POST", "/api/v1/instance-types/list", {})
    assert question == {"version": "2025-03-21", "data": {"selector": {"ByServiceAndLocation": {"services": ["vm"]}}}}
