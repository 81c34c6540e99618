"""Where the fields of a book's rows stand: tuples as the database tells them, for whoever looks at tens of thousands."""

from __future__ import annotations

from tracker.book.asof import FIELDS, PREFIX

OFFER = {name: PREFIX + place for place, name in enumerate(FIELDS["offer"])}
PROVIDER, SKU, REGION = OFFER["provider"], OFFER["sku"], OFFER["region"]
GPU, GPU_COUNT, MAX_GPU_COUNT = OFFER["gpu"], OFFER["gpu_count"], OFFER["max_gpu_count"]
TIER, TERM_MONTHS, TRUST = OFFER["tier"], OFFER["term_months"], OFFER["trust"]
AVAILABILITY, PRICE_KIND, IS_SLICE = OFFER["availability"], OFFER["price_kind"], OFFER["is_slice"]
CURRENCY, PRICE, VALID_FROM, INTERCONNECT = OFFER["currency"], OFFER["price"], OFFER["valid_from"], OFFER["interconnect"]

RATE = {name: PREFIX + place for place, name in enumerate(FIELDS["rate"])}
SELLER, MODEL, RATE_SKU, RATE_REGION = RATE["provider"], RATE["model"], RATE["sku"], RATE["region"]
RATE_CURRENCY, RATE_FROM, RATE_TO = RATE["currency"], RATE["valid_from"], RATE["valid_to"]

# rows that are one price list, and one kind of rental
LIST, RENTAL = (SELLER, MODEL, RATE_SKU), (PROVIDER, GPU, TIER)
